//! Pages of the system: mapped, unmapped, moved. The one place that calls it; knows nothing of who
//! has them.

use std::ffi::c_void;
use std::ptr::null_mut;

/// The least page there is; sizes are multiples of it.
pub(crate) const PAGE: usize = 4096;

/// A huge page of the common processors. Where another size is the system's, a block is as good as
/// any.
const HUGE_PAGE: usize = 2 << 20;

/// New pages, all zero; null if there are none. As long as a huge page, they begin at one and may
/// be some.
pub(crate) fn map(bytes: usize) -> *mut u8 {
    if bytes < HUGE_PAGE {
        return anywhere(bytes);
    }
    let Some(longer) = bytes.checked_add(HUGE_PAGE) else {
        return null_mut();
    };
    let found = anywhere(longer);
    if found.is_null() {
        return found;
    }
    let before = found.addr().next_multiple_of(HUGE_PAGE) - found.addr();
    let start = found.wrapping_add(before);
    // SAFETY: all of it was mapped above, and nobody has it yet.
    unsafe {
        unmap(found, before);
        unmap(start.wrapping_add(bytes), longer - before - bytes);
        // A wish, whose refusal changes nothing.
        libc::madvise(start.cast::<c_void>(), bytes, libc::MADV_HUGEPAGE);
    }
    start
}

fn anywhere(bytes: usize) -> *mut u8 {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: anonymous pages at a place of the system's choice touch nobody's memory.
    let found = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    if found == libc::MAP_FAILED {
        return null_mut();
    }
    found.cast()
}

/// Gives pages back.
///
/// # Safety
/// They come from this module, and nobody uses them any more.
pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as promised. It fails only where the process may have no further mapping; then they stay.
        unsafe { libc::munmap(start.cast::<c_void>(), bytes) };
    }
}

/// A block with its bytes in more pages; null, and the block stays, if there are none.
///
/// # Safety
/// `block` has these `bytes` of pages from this module, fewer than `wanted`.
pub(crate) unsafe fn grown(block: *mut u8, bytes: usize, wanted: usize) -> *mut u8 {
    let place = map(wanted);
    if place.is_null() {
        return place;
    }
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the old pages take the place of the first new ones, which nobody has yet.
    let moved = unsafe { libc::mremap(block.cast::<c_void>(), bytes, bytes, how, place.cast::<c_void>()) };
    if moved == libc::MAP_FAILED {
        // SAFETY: nobody has them yet.
        unsafe { unmap(place, wanted) };
        return null_mut();
    }
    place
}
