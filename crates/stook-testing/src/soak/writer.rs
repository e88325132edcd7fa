//! The writer: does one action after the other until it is killed.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stook::pack::{Attributes, CompactOptions, PackWriter, Result, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

use super::{Action, BATCH_KEYS, body, group, name};

/// Opens the pack in a directory, or makes it, and does the actions from number `first` on, `count`
/// at most. Says `B N` on `log` before action N and `A N` when all up to N are acknowledged, and
/// then finishes.
///
/// # Errors
/// Returns an error of the pack or the log; the process is expected to end with it.
///
/// # Panics
/// Panics if the pack is not a correctly recovered one.
pub fn write(directory: &Path, seed: u64, first: u64, count: u64, log: &mut dyn Write) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(LocalStorage::open(directory, LocalStorageOptions::default())?);
    let options = WriterOptions { segment_len: 300_000, checkpoint_len: 60_000, ..WriterOptions::default() };
    let is_new = !storage.list()?.iter().any(|file| file.name.starts_with("manifest-"));
    let mut writer =
        if is_new { PackWriter::create(storage, options)? } else { PackWriter::open(storage, options)? };
    assert_eq!(writer.recovery().damages, [], "a killed writer leaves no damage");
    let mut last = first;
    for number in first..first.saturating_add(count) {
        say(log, 'B', number)?;
        if act(&mut writer, seed, number)? {
            say(log, 'A', number)?;
        }
        last = number;
    }
    writer.finish(false)?;
    say(log, 'A', last)
}

fn say(log: &mut dyn Write, what: char, number: u64) -> Result<()> {
    // One write for each line: a line is there whole or not at all.
    let said = log.write_all(format!("{what} {number}\n").as_bytes()).and_then(|()| log.flush());
    said.map_err(|error: io::Error| stook::Error::io("write to", "the log", error).into())
}

/// Does an action; returns whether everything done so far is durable.
fn act(writer: &mut PackWriter, seed: u64, number: u64) -> Result<bool> {
    match Action::of(seed, number) {
        Action::Put { key, len, streamed: false } => {
            writer.put(&group(key), &name(key), &Attributes::new(), &body(key, number, len))?;
        }
        Action::Put { key, len, streamed: true } => {
            let announced = number.is_multiple_of(2).then_some(len as u64 + 16);
            let mut record = writer.begin(&group(key), &name(key), &Attributes::new(), announced)?;
            body(key, number, len).chunks(3_000).try_for_each(|part| record.write(part))?;
            record.finish()?;
        }
        Action::Delete { key } => drop(writer.delete(&name(key))?),
        Action::Batch => {
            let mut batch = writer.batch("batch")?;
            for key in BATCH_KEYS {
                batch.put(&name(key), &Attributes::new(), &body(key, number, 300))?;
            }
            batch.commit()?;
        }
        Action::Sync => {
            writer.sync()?;
            return Ok(true);
        }
        Action::Publish => {
            writer.publish()?;
            return Ok(true);
        }
        Action::Compact { keep_ns, extra_len } => {
            let keep = Duration::from_nanos(keep_ns);
            let options =
                CompactOptions { keep, extra_len, memory_len: 100_000, ..CompactOptions::default() };
            let done = writer.compact(&options, &mut |_| true)?;
            assert_eq!(done.left_out, [], "nothing is damaged");
            return Ok(true);
        }
    }
    Ok(false)
}
