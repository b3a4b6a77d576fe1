//! ZSTD for the parquet crate, whose readers and writers of a column chunk make a compressor and a
//! decompressor each. Making one asks the processor for its abilities (CPUID), which a virtual
//! machine leaves to its host: that takes longer than to decompress a small page. Here a thread has
//! one decompressor, and a compressor is made when it first compresses.

pub use zstd_safe;

pub mod bulk;
