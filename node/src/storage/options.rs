//! How the two databases are configured: for small machines, with everything that grows bounded.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType,
    DBRecoveryMode, Env, LogLevel, Options, WriteBufferManager, WriteOptions,
};

/// How much memory the state may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateOptions {
    /// Blocks of rows kept in memory.
    pub block_cache_bytes: usize,
    /// Rows that are not yet in files.
    pub memtable_bytes: usize,
}

impl Default for StateOptions {
    fn default() -> Self {
        Self {
            block_cache_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
        }
    }
}

/// Column families of the log database.
pub(super) const LOG: &str = "log";
/// What is known about the log, or about the state.
pub(super) const META: &str = "meta";
/// The machine's rows.
pub(super) const ROWS: &str = "rows";

/// Log entries are written once and mostly die young.
const LOG_MEMTABLE_BYTES: usize = 8 << 20;
const LOG_WAL_BYTES_MAX: u64 = 64 << 20;
const META_MEMTABLE_BYTES: usize = 4 << 20;
const BYTES_PER_SYNC: u64 = 1 << 20;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
/// Of indexes and filters, how much is looked up and read as one: smaller parts make the list of parts long, which every look-up of an
/// absent row searches once a file.
const METADATA_BLOCK_BYTES: usize = 32 << 10;
/// Number of keys of an index that are written one after the other by what they differ in.
const INDEX_RESTART_KEYS: i32 = 16;
/// Of a memtable's size: most rows that a command looks for are not there, and a walk of the memtable to learn that costs more than
/// all else that is done for it.
const MEMTABLE_BLOOM_RATIO: f64 = 0.02;

fn common() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    options.set_max_background_jobs(2);
    options.set_max_open_files(256);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    // Otherwise a file of many megabytes goes to the disk at once when it is finished, and a sync of the log waits behind it.
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    // Compaction can wait; calls cannot. Where processors are few it would take a good part of them.
    let mut env = Env::new().expect("the default environment is always there");
    env.lower_thread_pool_cpu_priority();
    options.set_env(&env);
    options
}

/// The log database: recovery keeps every synced record or fails; only an unfinished last record may be missing.
pub(super) fn log_db() -> Options {
    let mut options = common();
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // A recycled file could let an old record pass for a new one behind a torn tail.
    options.set_recycle_log_file_num(0);
    options.set_max_total_wal_size(LOG_WAL_BYTES_MAX);
    options
}

/// The column families of the log database.
pub(super) fn log_families() -> Vec<ColumnFamilyDescriptor> {
    let mut log = Options::default();
    log.set_compression_type(DBCompressionType::None);
    log.set_write_buffer_size(LOG_MEMTABLE_BYTES);
    log.set_max_write_buffer_number(3);
    vec![ColumnFamilyDescriptor::new(LOG, log), meta_family()]
}

/// The state database: what is flushed is all families as of one moment, for there is no write-ahead log to join them again; the
/// replicated log replays the rest.
pub(super) fn state_db(options: &StateOptions) -> Options {
    let mut db = common();
    db.set_atomic_flush(true);
    let memtables = WriteBufferManager::new_write_buffer_manager(options.memtable_bytes, false);
    db.set_write_buffer_manager(&memtables);
    db
}

/// How rows are written: to memory alone.
pub(super) fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

/// The column families of the state database.
pub(super) fn state_families(options: &StateOptions) -> Vec<ColumnFamilyDescriptor> {
    let mut blocks = BlockBasedOptions::default();
    // Not the LRU cache, whose list and locks cost a third of what it takes to find a row of a file. 0: its table grows as it fills.
    blocks.set_block_cache(&Cache::new_hyper_clock_cache(options.block_cache_bytes, 0));
    blocks.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
    blocks.set_cache_index_and_filter_blocks(true);
    // In parts: with millions of rows not all of an index fits the cache, and a whole one of a file is hundreds of kilobytes.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_metadata_block_size(METADATA_BLOCK_BYTES);
    // Keys of one owner begin alike: with that left out, more of the indexes fits the cache.
    blocks.set_index_block_restart_interval(INDEX_RESTART_KEYS);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut rows = Options::default();
    rows.set_compression_type(DBCompressionType::Lz4);
    rows.set_block_based_table_factory(&blocks);
    rows.set_write_buffer_size(options.memtable_bytes / 2);
    rows.set_memtable_whole_key_filtering(true);
    rows.set_memtable_prefix_bloom_ratio(MEMTABLE_BLOOM_RATIO);
    vec![ColumnFamilyDescriptor::new(ROWS, rows), meta_family()]
}

fn meta_family() -> ColumnFamilyDescriptor {
    let mut meta = Options::default();
    meta.set_compression_type(DBCompressionType::None);
    meta.set_write_buffer_size(META_MEMTABLE_BYTES);
    ColumnFamilyDescriptor::new(META, meta)
}
