//! ZSTD for the parquet crate, whose readers and writers of a column chunk make a compressor and a
//! decompressor each. Making one asks the processor for its abilities (CPUID), which a virtual
//! machine answers by its host: in some 2 to 30 µs, more than a small page takes to decompress.
//! Here a thread has one decompressor, and a compressor is made when it first compresses.

pub use zstd_safe;

pub mod bulk;
