//! Other ways of keeping the same records: each is built from the tree and read to its end.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::lmdb::Lmdb;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// Looks at a byte of every page, so that what is mapped is really read; how many bytes there are.
pub(crate) fn touch(bytes: &[u8]) -> u64 {
    black_box(bytes.iter().step_by(4096).fold(0_u64, |sum, &byte| sum + u64::from(byte)));
    bytes.len() as u64
}

/// A way of keeping records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// The loose files through `tar cf -`: read, not kept.
    TarOfFiles,
    /// One tar file through Python's `tarfile`.
    TarPython,
    /// One tar file through the `tar` crate.
    TarCrate,
    /// A SQLite table.
    Sqlite,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
}

impl Store {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::TarOfFiles, Self::TarPython, Self::TarCrate, Self::Sqlite, Self::Lmdb, Self::Redb];

    /// Its name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TarOfFiles => "`tar cf -` of the files",
            Self::TarPython => "tar, Python `tarfile`",
            Self::TarCrate => "tar, `tar` crate",
            Self::Sqlite => "SQLite `SELECT`",
            Self::Lmdb => "LMDB cursor",
            Self::Redb => "redb iteration",
        }
    }

    /// Where it keeps them below a work directory; the tree itself for what reads the files.
    pub(crate) fn path(self, work: &Path, tree: &Path) -> PathBuf {
        match self {
            Self::TarOfFiles => tree.to_path_buf(),
            Self::TarPython | Self::TarCrate => work.join("records.tar"),
            Self::Sqlite => work.join("records.sqlite"),
            Self::Lmdb => work.join("records.lmdb"),
            Self::Redb => work.join("records.redb"),
        }
    }

    /// Builds it from the files of a tree, whose paths are given in order.
    pub(crate) fn build(self, work: &Path, tree: &Path, names: &[String]) -> anyhow::Result<()> {
        let path = self.path(work, tree);
        let records = || {
            names.iter().map(|name| {
                let body = std::fs::read(tree.join(name)).with_context(|| format!("cannot read {name}"))?;
                Ok::<_, anyhow::Error>((name.clone().into_bytes(), body))
            })
        };
        match self {
            Self::TarOfFiles | Self::TarCrate => Ok(()),
            Self::TarPython => {
                let mut archive = tar::Builder::new(std::io::BufWriter::new(File::create(&path)?));
                archive.append_dir_all(".", tree)?;
                archive.into_inner()?.into_inner()?.sync_all()?;
                Ok(())
            }
            Self::Sqlite => build_sqlite(&path, records()),
            Self::Lmdb => Lmdb::open(&path)?.build(records()),
            Self::Redb => {
                let database = Database::create(&path)?;
                let transaction = database.begin_write()?;
                {
                    let mut table = transaction.open_table(TABLE)?;
                    for record in records() {
                        let (key, body) = record?;
                        table.insert(key.as_slice(), body.as_slice())?;
                    }
                }
                Ok(transaction.commit()?)
            }
        }
    }

    /// Reads every record; how many bytes of bodies there were.
    pub(crate) fn read(self, work: &Path, tree: &Path) -> anyhow::Result<u64> {
        let path = self.path(work, tree);
        match self {
            Self::TarOfFiles => tar_of_files(&path),
            Self::TarPython => tar_python(&path),
            Self::TarCrate => tar_crate(&path),
            Self::Sqlite => read_sqlite(&path),
            Self::Lmdb => Lmdb::open(&path)?.read(),
            Self::Redb => {
                // It closes when it is dropped, even during reads.
                let database = Database::open(&path)?;
                let transaction = database.begin_read()?;
                let table = transaction.open_table(TABLE)?;
                let mut bytes = 0;
                for record in table.iter()? {
                    bytes += touch(record?.1.value());
                }
                Ok(bytes)
            }
        }
    }
}

type Record = anyhow::Result<(Vec<u8>, Vec<u8>)>;

fn build_sqlite(path: &Path, records: impl Iterator<Item = Record>) -> anyhow::Result<()> {
    let mut connection = rusqlite::Connection::open(path)?;
    connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, key BLOB, body BLOB)", ())?;
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO records (key, body) VALUES (?1, ?2)")?;
        for record in records {
            let (key, body) = record?;
            insert.execute((key, body))?;
        }
    }
    Ok(transaction.commit()?)
}

fn read_sqlite(path: &Path) -> anyhow::Result<u64> {
    let connection = rusqlite::Connection::open(path)?;
    let mut select = connection.prepare("SELECT key, body FROM records ORDER BY id")?;
    let mut rows = select.query(())?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += touch(row.get_ref(1)?.as_blob()?);
    }
    Ok(bytes)
}

/// tar reads nothing when it sees that its output is /dev/null, so this reads it from a pipe.
fn tar_of_files(tree: &Path) -> anyhow::Result<u64> {
    let mut child =
        Command::new("tar").arg("cf").arg("-").arg("-C").arg(tree).arg(".").stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("no pipe")?;
    let mut buffer = vec![0; 1 << 20];
    while output.read(&mut buffer)? > 0 {}
    if !child.wait()?.success() {
        bail!("tar failed");
    }
    Ok(0)
}

fn tar_python(path: &Path) -> anyhow::Result<u64> {
    const PROGRAM: &str = "import sys, tarfile
total = 0
with tarfile.open(sys.argv[1], 'r|', bufsize=1 << 20) as archive:
    for member in archive:
        if member.isfile():
            total += len(archive.extractfile(member).read())
print(total)";
    let output =
        Command::new("python3").arg("-c").arg(PROGRAM).arg(path).output().context("cannot start python3")?;
    let text = String::from_utf8(output.stdout)?;
    text.trim().parse().with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn tar_crate(path: &Path) -> anyhow::Result<u64> {
    let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 20, File::open(path)?));
    let (mut bytes, mut body) = (0, Vec::new());
    for entry in archive.entries()? {
        let mut entry = entry?;
        body.clear();
        entry.read_to_end(&mut body)?;
        bytes += touch(&body);
    }
    Ok(bytes)
}
