//! The allocator of the native module: large blocks are mapped pages, huge pages where the system
//! has them, and blocks that one scan frees are reused by the next. Smaller blocks come from the
//! system allocator.
//!
//! Without it a scan into memory spends as much time on page faults as on rows. Free blocks are
//! held for half a second and hardly enlarge the process: a new block first returns as many bytes
//! as it takes. jemalloc and mimalloc were measured as well, and cost a scan more than they saved.
#![cfg(target_os = "linux")]

mod free_blocks;
mod pages;

use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks of at least this size are mapped: the size from which the C library's allocator would map
/// them.
const LARGE: usize = 128 << 10;

/// The allocator: large blocks are mapped, and held for reuse after they are freed; all others are
/// [`System`]'s.
#[derive(Debug)]
pub struct Blocks;

/// The bytes of a large block's pages, or `None` for a block of the system allocator. Depends on
/// size and alignment alone, so that freeing decides as allocating did. There are four sizes
/// between two powers of two, so that freed blocks fit again; the unused end of a block costs no
/// memory until a reused block has touched it.
fn pages_of(size: usize, align: usize) -> Option<usize> {
    let step = (1_usize << size.checked_ilog2()?) / 4;
    (size >= LARGE && align <= pages::PAGE).then(|| size.next_multiple_of(step))
}

/// Maps pages for a block, after returning as many bytes of free blocks.
fn new_pages(bytes: usize) -> *mut u8 {
    free_blocks::give_back(bytes);
    pages::map(bytes)
}

// SAFETY: a large block is whole pages that nobody else has, found again by size and alignment; all else is System's.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match pages_of(layout.size(), layout.align()) {
            Some(bytes) => free_blocks::take(bytes).unwrap_or_else(|| new_pages(bytes)),
            // SAFETY: as promised to this function.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(bytes) = pages_of(layout.size(), layout.align()) else {
            // SAFETY: as promised to this function.
            return unsafe { System.alloc_zeroed(layout) };
        };
        match free_blocks::take(bytes) {
            Some(block) => {
                // SAFETY: the block is that long at least, and nobody else's.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // New pages are zero.
            None => new_pages(bytes),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match pages_of(layout.size(), layout.align()) {
            // SAFETY: the block's pages are its own, and nobody uses it any more.
            Some(bytes) => unsafe { free_blocks::keep(block, bytes) },
            // SAFETY: as promised to this function.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (pages_of(layout.size(), layout.align()), pages_of(size, layout.align())) {
            // SAFETY: as promised to this function.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (Some(has), Some(wanted)) if wanted <= has => {
                // SAFETY: the last pages are the block's own, and its next layout doesn't have them.
                unsafe { pages::unmap(block.wrapping_add(wanted), has - wanted) };
                block
            }
            (Some(has), Some(wanted)) => {
                if let Some(new) = free_blocks::take(wanted) {
                    // SAFETY: two blocks, both that long at least; the old one isn't used any more.
                    unsafe {
                        new.copy_from_nonoverlapping(block, layout.size());
                        free_blocks::keep(block, has);
                    }
                    return new;
                }
                free_blocks::give_back(wanted - has);
                // SAFETY: the block's pages are its own.
                unsafe { pages::grown(block, has, wanted) }
            }
            // SAFETY: two blocks, both as long as the shorter layout; the old one isn't used any more. The size is not
            // zero and doesn't overflow, as promised to this function.
            _ => unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    new.copy_from_nonoverlapping(block, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                new
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::{Blocks, LARGE, pages_of};

    /// All tests share the list of free blocks, so they run one after the other.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some offsets in each page, and the last byte.
    fn places(size: usize) -> impl Iterator<Item = usize> {
        (0..size).step_by(397).chain([size - 1])
    }

    /// Writes to a block the bytes that `holds` checks.
    fn fill(block: *mut u8, size: usize, by: u8) {
        // SAFETY: the caller's block is that long.
        let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
        places(size).for_each(|index| bytes[index] = by.wrapping_add(index as u8));
    }

    fn holds(block: *const u8, size: usize, by: u8) -> bool {
        // SAFETY: the caller's block is that long.
        let bytes = unsafe { std::slice::from_raw_parts(block, size) };
        places(size).all(|index| bytes[index] == by.wrapping_add(index as u8))
    }

    #[test]
    fn sizes_have_room_and_waste_a_quarter_at_most() {
        for size in (LARGE..64 * LARGE).step_by(4093) {
            let bytes = pages_of(size, 64).unwrap();
            assert!(bytes >= size && bytes - size <= size / 4, "{size}: {bytes}");
            assert_eq!(bytes % 4096, 0);
            assert_eq!(pages_of(bytes, 64), Some(bytes), "a size of pages is its own");
        }
        assert_eq!(pages_of(LARGE - 1, 8), None);
        assert_eq!(pages_of(LARGE, 8192), None);
        assert!(pages_of(isize::MAX as usize, 8).is_some());
    }

    #[test]
    fn blocks_hold_what_is_written_while_they_grow_shrink_and_come_back() {
        let _alone = alone();
        let sizes = [
            1,
            LARGE - 1,
            LARGE,
            LARGE + 1,
            3 * LARGE,
            2 << 20,
            (2 << 20) + 5,
            9 << 20,
        ];
        let threads = (0..4_u8).map(|by| {
            std::thread::spawn(move || {
                for (n, from) in sizes.iter().cycle().take(200).enumerate() {
                    let to = sizes[(n * 5 + by as usize) % sizes.len()];
                    let layout = Layout::from_size_align(*from, 64).unwrap();
                    // SAFETY: layouts and sizes are those of the blocks.
                    unsafe {
                        let zeroed = Blocks.alloc_zeroed(layout);
                        assert!(places(*from).all(|index| *zeroed.add(index) == 0));
                        fill(zeroed, *from, by);
                        let block = Blocks.realloc(zeroed, layout, to);
                        assert_eq!(block.addr() % 64, 0);
                        assert_eq!(*block, by, "{from} to {to}");
                        assert!(to < *from || holds(block, *from, by), "{from} to {to}");
                        fill(block, to, by);
                        let other = Blocks.alloc(layout);
                        fill(other, *from, !by);
                        assert!(holds(block, to, by), "two blocks share a place");
                        Blocks.dealloc(other, layout);
                        Blocks.dealloc(block, Layout::from_size_align(to, 64).unwrap());
                    }
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn what_cannot_be_had_is_null_and_the_block_stays() {
        let _alone = alone();
        let layout = Layout::from_size_align(LARGE, 8).unwrap();
        // SAFETY: layouts and sizes are those of the blocks.
        unsafe {
            let block = Blocks.alloc(layout);
            fill(block, LARGE, 7);
            assert!(Blocks.realloc(block, layout, 1 << 62).is_null());
            assert!(holds(block, LARGE, 7));
            Blocks.dealloc(block, layout);
            assert!(Blocks.alloc(Layout::from_size_align(1 << 62, 8).unwrap()).is_null());
        }
    }
}
