//! Pages of the system: mapped, unmapped, moved. The only module that makes these system calls;
//! knows nothing of the pages' users.

use std::ffi::c_void;
use std::ptr::null_mut;

/// The smallest page size; all sizes are multiples of it.
pub(crate) const PAGE: usize = 4096;

/// A huge page of common processors. If the system's huge pages have another size, blocks still
/// work, in ordinary pages.
const HUGE_PAGE: usize = 2 << 20;

/// Maps zeroed pages; null on failure. A block of at least a huge page begins at a huge page's
/// boundary, so that the system can use huge pages for it.
pub(crate) fn map(bytes: usize) -> *mut u8 {
    if bytes < HUGE_PAGE {
        return anywhere(bytes);
    }
    let Some(longer) = bytes.checked_add(HUGE_PAGE) else {
        return null_mut();
    };
    let mapping = anywhere(longer);
    if mapping.is_null() {
        return mapping;
    }
    let before = mapping.addr().next_multiple_of(HUGE_PAGE) - mapping.addr();
    let start = mapping.wrapping_add(before);
    // SAFETY: all of it was mapped above, and nobody has it yet.
    unsafe {
        unmap(mapping, before);
        unmap(start.wrapping_add(bytes), longer - before - bytes);
        // A hint, whose refusal changes nothing.
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
    let mapped = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return null_mut();
    }
    mapped.cast()
}

/// Unmaps pages.
///
/// # Safety
/// They come from this module, and are no longer in use.
pub(crate) unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as promised. It fails only where the process may have no further mapping; then they stay.
        unsafe { libc::munmap(start.cast::<c_void>(), bytes) };
    }
}

/// Enlarges a block to `wanted` bytes, moving it if necessary. Null on failure; the old block then
/// stays valid.
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
