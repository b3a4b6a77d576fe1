//! Large blocks that were freed recently, for reuse by the next request of the same size. A thread
//! that runs while there are such blocks returns them to the system.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::pages;

/// How long a freed block is held for reuse.
const FREE_FOR: Duration = Duration::from_millis(500);

/// Attempts to take a contended lock, some hundred nanoseconds in all; then the caller maps new
/// pages instead.
const PATIENCE: usize = 200;

/// How many of a size's blocks are searched for one that the same processor freed.
const NEWEST: usize = 16;

/// At least this many bytes stay available for reuse: decoders and encoders ask for the same few
/// sizes again and again.
const WORKING_BYTES: usize = 8 << 20;

struct Block {
    start: *mut u8,
    bytes: usize,
    freed: Instant,
    /// The processor that freed the block, whose caches may still hold it.
    processor: libc::c_int,
}

// SAFETY: nobody but the list has the block's pages.
unsafe impl Send for Block {}

struct Blocks {
    /// The blocks of each size in the order in which they were freed. There are some dozens of
    /// sizes.
    freed: Vec<(usize, VecDeque<Block>)>,
    /// Bytes of all blocks together.
    bytes: usize,
    /// The process whose thread returns the blocks; a forked child has its parent's blocks, but not
    /// the thread.
    giving_back: Option<libc::pid_t>,
}

impl Blocks {
    fn push(&mut self, block: Block) {
        self.bytes += block.bytes;
        match self.freed.iter_mut().find(|(bytes, _)| *bytes == block.bytes) {
            Some((_, blocks)) => blocks.push_back(block),
            None => self.freed.push((block.bytes, VecDeque::from([block]))),
        }
    }

    fn take(&mut self, bytes: usize, processor: libc::c_int) -> Option<Block> {
        let (_, blocks) = self.freed.iter_mut().find(|(size, _)| *size == bytes)?;
        let newest = blocks.iter().enumerate().rev().take(NEWEST);
        let own = newest
            .filter(|(_, b)| b.processor == processor)
            .map(|(index, _)| index)
            .next();
        let block = blocks.remove(own.unwrap_or(0))?;
        self.bytes -= block.bytes;
        Some(block)
    }

    fn oldest(&self) -> Option<Instant> {
        self.freed.iter().filter_map(|(_, b)| b.front()).map(|b| b.freed).min()
    }

    fn take_oldest(&mut self) -> Option<Block> {
        let some = self.freed.iter_mut().filter(|(_, blocks)| !blocks.is_empty());
        let (_, oldest) = some.min_by_key(|(_, blocks)| blocks.front().map(|b| b.freed))?;
        let block = oldest.pop_front()?;
        self.bytes -= block.bytes;
        Some(block)
    }
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks {
    freed: Vec::new(),
    bytes: 0,
    giving_back: None,
});

/// The list of blocks, if its lock is free. No caller waits for it: the process may be forked while
/// another thread holds it, and the list's own memory comes from this allocator.
fn blocks() -> Option<MutexGuard<'static, Blocks>> {
    (0..PATIENCE).find_map(|_| {
        let guard = BLOCKS.try_lock().ok();
        if guard.is_none() {
            std::hint::spin_loop();
        }
        guard
    })
}

/// A block of this size with its old content: preferably one that this processor just freed,
/// otherwise the one that has been free for the longest. A block in another processor's cache costs
/// more than one in none.
pub(crate) fn take(bytes: usize) -> Option<*mut u8> {
    let here = processor();
    blocks()?.take(bytes, here).map(|b| b.start)
}

fn processor() -> libc::c_int {
    // SAFETY: it only tells a number.
    unsafe { libc::sched_getcpu() }
}

/// Holds a block for reuse.
///
/// # Safety
/// Its pages come from `pages`, have this size, and are no longer in use.
pub(crate) unsafe fn keep(start: *mut u8, bytes: usize) {
    if let Some(mut blocks) = blocks() {
        // SAFETY: it only tells a number.
        let process = unsafe { libc::getpid() };
        if blocks.giving_back == Some(process) || begin() {
            blocks.giving_back = Some(process);
            blocks.push(Block {
                start,
                bytes,
                freed: Instant::now(),
                processor: processor(),
            });
            return;
        }
    }
    // SAFETY: as promised to this function.
    unsafe { pages::unmap(start, bytes) };
}

/// Returns the oldest blocks to the system, at least this many bytes, so that new blocks don't
/// enlarge the process.
pub(crate) fn give_back(bytes: usize) {
    let mut bytes_freed = 0;
    let next = || blocks().filter(|b| b.bytes > WORKING_BYTES)?.take_oldest();
    while let Some(block) = (bytes_freed < bytes).then(next).flatten() {
        bytes_freed += block.bytes;
        // SAFETY: the list had it, and nobody else.
        unsafe { pages::unmap(block.start, block.bytes) };
    }
}

/// Starts the thread that returns blocks; true if it runs. A thread of the standard library would
/// need resources of the starting thread, which may be about to end.
fn begin() -> bool {
    // SAFETY: the thread is detached, its function takes nothing.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let began = libc::pthread_create(&raw mut thread, std::ptr::null(), run, null_mut()) == 0;
        if began {
            libc::pthread_detach(thread);
        }
        began
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    while give_back_old(Instant::now()) {
        std::thread::sleep(FREE_FOR / 4);
    }
    null_mut()
}

/// Returns blocks that were freed long before `now`. False if no block is left; the thread then
/// ends.
fn give_back_old(now: Instant) -> bool {
    loop {
        let block = {
            let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
            match blocks.oldest() {
                None => {
                    blocks.giving_back = None;
                    return false;
                }
                Some(freed) if now.duration_since(freed) < FREE_FOR => return true,
                Some(_) => blocks.take_oldest(),
            }
        };
        if let Some(block) = block {
            // SAFETY: the list had it, and nobody else.
            unsafe { pages::unmap(block.start, block.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{BLOCKS, Block, Blocks, give_back, keep, take};
    use crate::pages;
    use crate::tests::alone;

    fn kept_bytes(size: usize) -> usize {
        let blocks = BLOCKS.lock().unwrap();
        let sizes = blocks.freed.iter().filter(|(bytes, _)| *bytes == size);
        sizes.map(|(bytes, blocks)| bytes * blocks.len()).sum()
    }

    #[test]
    fn a_block_is_kept_for_its_size_for_a_moment_and_goes_before_new_ones_come() {
        const BYTES: usize = 67 << 20;
        let _alone = alone();
        let free = |block: *mut u8, bytes| unsafe { keep(block, bytes) };
        let block = pages::map(BYTES);
        free(block, BYTES);
        assert_eq!(take(BYTES - pages::PAGE), None);
        assert_eq!(take(BYTES), Some(block), "the same pages");
        assert_eq!(take(BYTES), None);

        free(block, BYTES);
        give_back(usize::MAX);
        assert_eq!(kept_bytes(BYTES), 0, "more than is always kept");

        // By the second time the thread may have ended, and a new one is started.
        for _ in 0..2 {
            free(pages::map(BYTES), BYTES);
            let began = Instant::now();
            while kept_bytes(BYTES) > 0 {
                assert!(began.elapsed() < Duration::from_secs(60), "no thread gives it back");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    #[test]
    fn a_processor_gets_its_own_newest_block_and_otherwise_the_oldest() {
        let began = Instant::now();
        let block = |n: usize, bytes, processor| Block {
            start: std::ptr::without_provenance_mut(n),
            bytes,
            freed: began + Duration::from_millis(n as u64),
            processor,
        };
        let mut blocks = Blocks {
            freed: Vec::new(),
            bytes: 0,
            giving_back: None,
        };
        for (n, (bytes, processor)) in [(8, 0), (4, 0), (8, 1), (8, 0), (8, 1)].into_iter().enumerate() {
            blocks.push(block(n, bytes, processor));
        }
        assert_eq!((blocks.bytes, blocks.oldest()), (36, Some(began)));
        let mut taken = |bytes, processor| blocks.take(bytes, processor).map(|b| b.start.addr());
        assert_eq!(taken(8, 1), Some(4));
        assert_eq!(taken(8, 2), Some(0));
        assert_eq!(taken(8, 0), Some(3));
        assert_eq!(taken(2, 0), None);
        assert_eq!(blocks.take_oldest().map(|b| b.start.addr()), Some(1));
        assert_eq!(blocks.take_oldest().map(|b| b.start.addr()), Some(2));
        assert!(blocks.take_oldest().is_none() && blocks.oldest().is_none());
        assert_eq!(blocks.bytes, 0);
    }

    /// Runs `what` in a forked child; true if the child exits with success.
    fn in_a_child(what: impl Fn() -> bool) -> bool {
        // SAFETY: the child calls what allocates pages and sleeps, and ends without running anything of its parent's.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                libc::_exit(i32::from(!what()));
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0) == child && status == 0
        }
    }

    #[test]
    fn a_forked_child_does_without_the_list_or_has_a_thread_of_its_own() {
        const BYTES: usize = 71 << 20;
        let _alone = alone();
        let used = || {
            let block = pages::map(BYTES);
            // SAFETY: the block is these bytes, and nobody else's.
            unsafe {
                block.write_bytes(1, BYTES);
                keep(block, BYTES);
            }
            !block.is_null()
        };
        let held = BLOCKS.lock().unwrap();
        assert!(
            in_a_child(|| used() && take(BYTES).is_none()),
            "the list is locked for ever"
        );
        drop(held);
        assert!(used(), "so that the parent has its thread");
        let emptied = || {
            (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                BLOCKS.try_lock().is_ok_and(|blocks| blocks.bytes == 0)
            })
        };
        // The parent's thread may hold the list's lock during the fork, so that the child has it
        // locked: try again.
        assert!(
            (0..20).any(|_| in_a_child(|| used() && emptied())),
            "nobody gives the child's blocks back"
        );
    }
}
