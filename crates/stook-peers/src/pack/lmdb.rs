//! LMDB, through heed.
#![expect(unsafe_code, reason = "LMDB maps its file, so heed has no safe way to open one")]

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, PutFlags};

use super::stores::touch;

/// Address space that is set aside for the map.
const MAP_LEN: usize = 8 << 30;

/// An environment with one database.
pub(crate) struct Lmdb {
    env: Env,
}

impl Lmdb {
    /// Opens or makes the environment in a directory.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path)?;
        // SAFETY: the file was made by this process, and nothing else changes it while it is
        // mapped.
        let env = unsafe { EnvOpenOptions::new().map_size(MAP_LEN).open(path)? };
        Ok(Self { env })
    }

    /// The one database, made when it is not there.
    fn database(&self) -> anyhow::Result<Database<'_, Bytes, Bytes>> {
        let transaction = self.env.write_txn()?;
        let made = self.env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        Ok(made.unwrap_commit())
    }

    /// Puts records that come in the order of their keys.
    pub(crate) fn build(
        &self,
        records: impl Iterator<Item = anyhow::Result<(Vec<u8>, Vec<u8>)>>,
    ) -> anyhow::Result<()> {
        let database = self.database()?;
        let mut transaction = self.env.write_txn()?;
        for record in records {
            let (key, body) = record?;
            database.put_with_flags(&mut transaction, PutFlags::APPEND, &key, &body)?;
        }
        Ok(transaction.commit()?)
    }

    /// Puts one record in a transaction of its own, which is on the medium when that returns.
    pub(crate) fn putter(&self) -> anyhow::Result<impl Fn(&[u8], &[u8]) -> anyhow::Result<()> + Sync> {
        let database = self.database()?;
        Ok(move |key: &[u8], body: &[u8]| {
            let mut transaction = self.env.write_txn()?;
            database.put(&mut transaction, key, body)?;
            Ok(transaction.commit()?)
        })
    }

    /// Puts and deletes records, all in one transaction.
    pub(crate) fn change(
        &self,
        changes: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) -> anyhow::Result<()> {
        let database = self.database()?;
        let mut transaction = self.env.write_txn()?;
        for (key, body) in changes {
            match body {
                Some(body) => database.put(&mut transaction, &key, &body)?,
                None => _ = database.delete(&mut transaction, &key)?,
            }
        }
        Ok(transaction.commit()?)
    }

    /// Writes a copy without holes into a new directory.
    pub(crate) fn copy_compacted(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::create_dir(path)?;
        let mut file = std::fs::File::create_new(path.join("data.mdb"))?;
        self.env.copy_to_file(&mut file, heed::CompactionOption::Enabled)?;
        Ok(file.sync_all()?)
    }

    /// Goes through all records with a cursor.
    pub(crate) fn read(&self) -> anyhow::Result<u64> {
        let database = self.database()?;
        let transaction = self.env.read_txn()?;
        let mut bytes = 0;
        for record in database.iter(&transaction)? {
            bytes += touch(record?.1);
        }
        Ok(bytes)
    }

    /// Gets records by key, and looks at each.
    pub(crate) fn get<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        look: fn(&[u8]) -> u64,
    ) -> anyhow::Result<u64> {
        let database = self.database()?;
        let transaction = self.env.read_txn()?;
        let mut bytes = 0;
        for key in keys {
            bytes += database.get(&transaction, key)?.map_or(0, look);
        }
        Ok(bytes)
    }
}
