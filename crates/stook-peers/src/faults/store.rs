//! Stores that are libraries: SQLite and LMDB, each in a child process of its own (a hidden command
//! of this program), because a bad sector under a mapping ends the process.
//!
//! Each has records before the fault, and is given more of them in one transaction.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use rusqlite::Connection;

use crate::pack::lmdb::Lmdb;

/// Records that are there before, and those that are put.
const OLD: std::ops::Range<u64> = 0..60;
const NEW: std::ops::Range<u64> = 60..140;

/// The exit code of a check that found the old records, and none of the new.
pub(super) const ONLY_OLD: u8 = 10;
/// The exit code of a check that found something wrong.
pub(super) const WRONG: u8 = 20;

/// Flags of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    work: Work,
    /// With what
    #[arg(value_enum)]
    store: Store,
    /// The directory of the store
    path: PathBuf,
}

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Work {
    /// Make the store and put the old records
    Make,
    /// Put the new records in one transaction
    Put,
    /// Look which records are there
    Check,
}

/// A store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Store {
    /// SQLite with its rollback journal and `synchronous = FULL`, as it comes
    Sqlite,
    /// The same with `synchronous = EXTRA`, which syncs the directory after the commit, too
    SqliteExtra,
    /// LMDB as it comes
    Lmdb,
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Make => "make",
            Self::Put => "put",
            Self::Check => "check",
        }
    }
}

impl Store {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::SqliteExtra => "sqlite-extra",
            Self::Lmdb => "lmdb",
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    All,
    OnlyOld,
    Wrong,
}

/// Runs the hidden command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (args.work, args.store) {
        (Work::Make, Store::Lmdb) => put_lmdb(&args.path, OLD)?,
        (Work::Put, Store::Lmdb) => put_lmdb(&args.path, NEW)?,
        (Work::Make, store) => {
            let database = open(&args.path, store)?;
            database.execute("CREATE TABLE records (key INTEGER PRIMARY KEY, body BLOB)", ())?;
            put_sqlite(database, OLD)?;
        }
        (Work::Put, store) => put_sqlite(open(&args.path, store)?, NEW)?,
        (Work::Check, store) => {
            let found = match store {
                Store::Lmdb => found_lmdb(&args.path)?,
                _ => found_sqlite(&args.path, store)?,
            };
            return Ok(match found {
                Found::All => ExitCode::SUCCESS,
                Found::OnlyOld => ExitCode::from(ONLY_OLD),
                Found::Wrong => ExitCode::from(WRONG),
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The body of a record: 100 to 3,000 bytes that no other has.
fn body(key: u64) -> Vec<u8> {
    let len = 100 + (key * 577) % 2900;
    (0..len).map(|at| (key.wrapping_mul(31).wrapping_add(at * at) >> 3) as u8).collect()
}

fn open(path: &Path, store: Store) -> anyhow::Result<Connection> {
    let connection = Connection::open(path.join("records.sqlite"))?;
    let synchronous = if store == Store::SqliteExtra { "EXTRA" } else { "FULL" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    Ok(connection)
}

fn put_sqlite(mut connection: Connection, keys: std::ops::Range<u64>) -> anyhow::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO records VALUES (?1, ?2)")?;
        for key in keys {
            insert.execute((key.cast_signed(), body(key)))?;
        }
    }
    Ok(transaction.commit()?)
}

fn found_sqlite(path: &Path, store: Store) -> anyhow::Result<Found> {
    let connection = open(path, store)?;
    let integrity: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    ensure!(integrity == "ok", "{integrity}");
    let mut select = connection.prepare("SELECT key, body FROM records ORDER BY key")?;
    let rows = select.query_map((), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    let records = rows.collect::<Result<Vec<_>, _>>()?;
    let is_whole = |count: u64| {
        records.len() as u64 == count
            && records
                .iter()
                .zip(0..)
                .all(|((key, found), at)| key.cast_unsigned() == at && *found == body(at))
    };
    Ok(found(is_whole(NEW.end), is_whole(OLD.end)))
}

fn found(has_all: bool, has_only_old: bool) -> Found {
    match (has_all, has_only_old) {
        (true, _) => Found::All,
        (_, true) => Found::OnlyOld,
        _ => Found::Wrong,
    }
}

fn put_lmdb(path: &Path, keys: std::ops::Range<u64>) -> anyhow::Result<()> {
    let store = Lmdb::open(path)?;
    store.change(keys.map(|key| (key.to_be_bytes().to_vec(), Some(body(key)))))
}

fn found_lmdb(path: &Path) -> anyhow::Result<Found> {
    let store = Lmdb::open(path)?;
    let checksum = |bytes: &[u8]| u64::from(crc32c::crc32c(bytes)) + 1;
    let expected = |keys: std::ops::Range<u64>| keys.map(|key| checksum(&body(key))).sum::<u64>();
    let there = |keys: std::ops::Range<u64>| -> anyhow::Result<u64> {
        let keys: Vec<_> = keys.map(u64::to_be_bytes).collect();
        store.get(keys.iter().map(<[u8; 8]>::as_slice), |bytes| u64::from(crc32c::crc32c(bytes)) + 1)
    };
    let (old, new) = (there(OLD)?, there(NEW)?);
    let has_old = old == expected(OLD);
    Ok(found(has_old && new == expected(NEW), has_old && new == 0))
}
