//! The composite file that the document describes, but whose program does not have: every record
//! has a used flag and a time as well, and half of the records are history.
//!
//! A record is its number (4 bytes), whether it is used (1), its time in milliseconds (8), and the
//! length of its data (4), big-endian, and the data. Before each record of the sample is an older
//! one with the same number, which is no longer used.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::super::numbered::path_of;
use crate::sample::{self, Sample};

/// Bytes of a record before its data.
const HEAD_LEN: u64 = 17;

/// So much is written at once.
const WRITTEN_LEN: usize = 1 << 20;

/// The time of the first record: any.
const FIRST_MS: u64 = 1_700_000_000_000;

/// What is done with a record that is no longer used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldRecords {
    /// It is read and taken apart as the others are.
    Parsed,
    /// Its data is passed over.
    Skipped,
}

/// Bytes of the file of a sample.
pub(super) fn len_of(sample: Sample) -> u64 {
    sample.files.saturating_mul(2).saturating_mul(sample.size.saturating_add(HEAD_LEN))
}

/// Writes the file of a sample.
///
/// # Errors
/// Returns an error if writing fails, or the error of `before_each`, which ends it.
pub(super) fn write(
    path: &Path,
    sample: Sample,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let partial = path.with_extension("history.partial");
    let context = || format!("cannot write {}", partial.display());
    let mut out =
        BufWriter::with_capacity(WRITTEN_LEN, sample::create_private(&partial).with_context(context)?);
    let (len, mut data) = (u32::try_from(sample.size)?, Vec::new());
    for number in 0..sample.files {
        before_each()?;
        // The older one has other data, which the sample has nowhere.
        for (is_used, data_of) in [(false, number + sample.files), (true, number)] {
            sample::fill(data_of, 0, sample.size, &mut data);
            let time_ms = FIRST_MS + 2 * number + u64::from(is_used);
            let head = [
                &u32::try_from(number)?.to_be_bytes()[..],
                &[u8::from(is_used)],
                &time_ms.to_be_bytes(),
                &len.to_be_bytes(),
            ];
            out.write_all(&head.concat()).with_context(context)?;
            out.write_all(&data).with_context(context)?;
        }
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(context)?;
    file.sync_all().with_context(context)?;
    std::fs::rename(&partial, path).with_context(context)
}

/// Reads the file from beginning to end with reads of `buffer_len` bytes, and passes on the records
/// that are used, as those of the plain file are: the path of the file that has the same, and
/// number, length and data. Returns how many of these and how many of their bytes there were.
///
/// # Errors
/// Returns an error if reading fails, or the file ends within a record.
pub(super) fn read(
    path: &Path,
    files: u64,
    buffer_len: usize,
    old: OldRecords,
    mut take: impl FnMut(&[u8], u64, &[u8]),
) -> anyhow::Result<(u64, u64)> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    let mut left = file.metadata().with_context(context)?.len();
    let mut input = BufReader::with_capacity(buffer_len, file);
    let (mut body, mut records, mut bytes) = (Vec::new(), 0, 0);
    while left > 0 {
        ensure!(left >= HEAD_LEN, "{} ends inside of a record: remove it with --clean", path.display());
        let (mut number, mut used, mut time_ms, mut len) = ([0; 4], [0], [0; 8], [0; 4]);
        for part in [&mut number[..], &mut used[..], &mut time_ms[..], &mut len[..]] {
            input.read_exact(part).with_context(context)?;
        }
        _ = black_box(u64::from_be_bytes(time_ms));
        let data_len = u64::from(u32::from_be_bytes(len));
        if data_len > left - HEAD_LEN {
            bail!("{} ends inside of a record: remove it with --clean", path.display());
        }
        left -= HEAD_LEN + data_len;
        let is_used = used != [0];
        if !is_used && old == OldRecords::Skipped {
            input.seek_relative(i64::try_from(data_len)?).with_context(context)?;
            continue;
        }
        body.clear();
        body.extend_from_slice(&number);
        body.extend_from_slice(&len);
        let head_len = body.len();
        body.resize(head_len + usize::try_from(data_len)?, 0);
        input.read_exact(body.get_mut(head_len..).unwrap_or_default()).with_context(context)?;
        _ = black_box(parsed(body.get(head_len..).unwrap_or_default()));
        if !is_used {
            continue;
        }
        take(path_of(u64::from(u32::from_be_bytes(number)), files).as_bytes(), 0, &body);
        records += 1;
        bytes += body.len() as u64;
    }
    Ok((records, bytes))
}

/// Takes the data of a record apart into numbers of 4 bytes, as a program does that keeps them, and
/// adds them up; what is left over is a number, too.
fn parsed(data: &[u8]) -> u64 {
    let numbers =
        data.chunks(4).map(|number| number.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)));
    numbers.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use rustix::fs::Advice;

    use super::super::super::numbered;
    use super::*;

    #[test]
    fn a_record_is_taken_apart_to_its_last_byte() {
        assert_eq!(parsed(&[0, 0, 1, 2, 0, 0, 0, 3, 9]), 258 + 3 + 9);
        assert_eq!(parsed(&[]), 0);
    }

    #[test]
    fn what_is_used_is_what_the_plain_file_has_whether_history_is_skipped_or_parsed() {
        let place = tempfile::tempdir().unwrap();
        // Records that fit into a buffer several times, and such that are longer than one.
        for (number, sample) in
            [Sample { files: 23, size: 77 }, Sample { files: 5, size: 9_000 }, Sample { files: 4, size: 0 }]
                .into_iter()
                .enumerate()
        {
            let [plain, history] =
                ["plain", "history"].map(|kind| place.path().join(format!("{number}.{kind}")));
            numbered::write(&plain, sample, || Ok(())).unwrap();
            write(&history, sample, || Ok(())).unwrap();
            assert_eq!(std::fs::metadata(&history).unwrap().len(), len_of(sample));
            let mut expected = Vec::new();
            let keep = |key: &[u8], _, bytes: &[u8]| expected.push((key.to_vec(), bytes.to_vec()));
            let amount = numbered::read(&plain, sample.files, 1000, Advice::Normal, keep).unwrap();
            for old in [OldRecords::Parsed, OldRecords::Skipped] {
                let mut found = Vec::new();
                let keep = |key: &[u8], _, bytes: &[u8]| found.push((key.to_vec(), bytes.to_vec()));
                assert_eq!(read(&history, sample.files, 1000, old, keep).unwrap(), amount);
                assert_eq!(found, expected, "{old:?}");
            }
            // What is cut off is no record.
            let bytes = std::fs::read(&history).unwrap();
            std::fs::write(&history, &bytes[..bytes.len() - 1]).unwrap();
            read(&history, sample.files, 1000, OldRecords::Skipped, |_, _, _| {}).unwrap_err();
        }
    }
}
