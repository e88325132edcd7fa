//! The tree and the composite file of the published study: files by the digits of their numbers,
//! ten in a directory, and one file with the same records, one after the other.
//!
//! A record is its number and the length of its data, 4 bytes each, big-endian, and the data. A
//! file of the tree is one record.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{Advice, fadvise};

use crate::sample::{self, Sample};

/// Bytes of a record before its data.
pub(super) const HEAD_LEN: u64 = 8;

/// Files are written by this many threads.
const THREADS: u64 = 8;

/// So much of a composite file is written at once.
const WRITTEN_LEN: usize = 1 << 20;

/// How a sample is called in the names of what is made of it.
pub(super) fn name(sample: Sample) -> String {
    format!("{}-numbered", sample.name())
}

/// Refuses what a record cannot say.
///
/// # Errors
/// Returns an error where a number or a length has more than 31 bits.
pub(super) fn check(sample: Sample) -> anyhow::Result<()> {
    let most = i32::MAX as u64;
    ensure!(
        sample.files <= most && sample.size <= most,
        "a record of the published study has numbers of 31 bits: --files {} or --size {} is too much",
        sample.files,
        sample.size
    );
    Ok(())
}

/// Where a file is, of so many: the digits of its number, as many as the count has, in twos, and
/// those that are left are the name.
pub(super) fn path_of(number: u64, files: u64) -> String {
    let digits = files.to_string().len();
    let digits = format!("{number:0digits$}");
    let mut path = String::with_capacity(digits.len() * 2);
    let mut rest = digits.as_str();
    while let Some((directory, below)) = rest.split_at_checked(2).filter(|_| rest.len() > 2) {
        path.push_str(directory);
        path.push('/');
        rest = below;
    }
    path + rest
}

/// A record, in a buffer that is used again.
pub(super) fn record(number: u64, size: u64, data: &mut Vec<u8>, record: &mut Vec<u8>) -> anyhow::Result<()> {
    record.clear();
    record.extend_from_slice(&u32::try_from(number)?.to_be_bytes());
    record.extend_from_slice(&u32::try_from(size)?.to_be_bytes());
    sample::fill(number, 0, size, data);
    record.extend_from_slice(data);
    Ok(())
}

/// Makes the tree, if it is not there.
///
/// # Errors
/// Returns an error if writing fails, or the error of `before_each`, which ends it.
pub(super) fn make_tree(
    tree: &Path,
    sample: Sample,
    before_each: impl Fn() -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    if tree.is_dir() {
        return Ok(());
    }
    let partial = tree.with_extension("tree.partial");
    sample::remove(&partial)?;
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    // Ten files have one directory, and are written by one thread.
    let tens = sample.files.div_ceil(10);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let (mut data, mut buffer) = (Vec::new(), Vec::new());
                loop {
                    let ten = next.fetch_add(1, Ordering::Relaxed);
                    if ten >= tens {
                        return;
                    }
                    let numbers = ten * 10..(ten * 10 + 10).min(sample.files);
                    let written = numbers.map(|number| {
                        before_each()?;
                        record(number, sample.size, &mut data, &mut buffer)?;
                        write_file(&partial.join(path_of(number, sample.files)), &buffer)
                    });
                    if let Err(error) = written.collect::<anyhow::Result<()>>() {
                        next.store(tens, Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    sample::check_whole(&partial, sample.files)?;
    sample::sync(tree.parent().unwrap_or(Path::new(".")))?;
    fs::rename(&partial, tree).with_context(|| format!("cannot rename {}", partial.display()))
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(context)?;
    }
    fs::write(path, bytes).with_context(context)
}

/// Writes the composite file of a sample.
///
/// # Errors
/// Returns an error if writing fails, or the error of `before_each`, which ends it.
pub(super) fn write(
    path: &Path,
    sample: Sample,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let partial = path.with_extension("plain.partial");
    let context = || format!("cannot write {}", partial.display());
    let mut out =
        BufWriter::with_capacity(WRITTEN_LEN, sample::create_private(&partial).with_context(context)?);
    let (mut data, mut buffer) = (Vec::new(), Vec::new());
    for number in 0..sample.files {
        before_each()?;
        record(number, sample.size, &mut data, &mut buffer)?;
        out.write_all(&buffer).with_context(context)?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(context)?;
    file.sync_all().with_context(context)?;
    fs::rename(&partial, path).with_context(context)
}

/// Opens a file, and says what the kernel is to expect; without advice nothing is said, as
/// published.
fn open(path: &Path, advice: Advice) -> io::Result<File> {
    let file = File::open(path)?;
    if advice != Advice::Normal {
        fadvise(&file, 0, None, advice)?;
    }
    Ok(file)
}

/// Reads a composite file from beginning to end with reads of `buffer_len` bytes, and passes on its
/// records: the path of the file that has the same, and all bytes. Returns how many records and
/// bytes there were. The advice is what the kernel is to expect.
///
/// # Errors
/// Returns an error if reading fails, or the file ends within a record.
pub(super) fn read(
    path: &Path,
    files: u64,
    buffer_len: usize,
    advice: Advice,
    mut take: impl FnMut(&[u8], u64, &[u8]),
) -> anyhow::Result<(u64, u64)> {
    let context = || format!("cannot read {}", path.display());
    let file = open(path, advice).with_context(context)?;
    let mut left = file.metadata().with_context(context)?.len();
    let mut input = BufReader::with_capacity(buffer_len, file);
    let (mut body, mut records, mut bytes) = (Vec::new(), 0, 0);
    while left > 0 {
        ensure!(left >= HEAD_LEN, "{} ends inside of a record: remove it with --clean", path.display());
        body.resize(HEAD_LEN as usize, 0);
        input.read_exact(&mut body).with_context(context)?;
        let (number, len) = head_of(&body)?;
        if u64::from(len) > left - HEAD_LEN {
            bail!("{} ends inside of a record: remove it with --clean", path.display());
        }
        body.resize(HEAD_LEN as usize + len as usize, 0);
        input.read_exact(body.get_mut(HEAD_LEN as usize..).unwrap_or_default()).with_context(context)?;
        take(path_of(u64::from(number), files).as_bytes(), 0, &body);
        left -= body.len() as u64;
        records += 1;
        bytes += body.len() as u64;
    }
    Ok((records, bytes))
}

/// The number and the length that a record begins with.
fn head_of(record: &[u8]) -> anyhow::Result<(u32, u32)> {
    let part = |from: usize| -> anyhow::Result<u32> {
        let bytes = record.get(from..from + 4).context("a record is shorter than its head")?;
        Ok(u32::from_be_bytes(bytes.try_into()?))
    };
    Ok((part(0)?, part(4)?))
}

/// Opens the files of a tree by their numbers, one after the other, and reads each whole, with a
/// buffer of its length, as the published program does. The advice is what the kernel is to expect
/// of each.
///
/// # Errors
/// Returns an error if one cannot be read, or is not the record of its number.
pub(super) fn read_files(
    tree: &Path,
    files: u64,
    advice: Advice,
    take: impl Fn(&[u8], u64, &[u8]),
) -> anyhow::Result<(u64, u64)> {
    let (mut record, mut bytes) = (Vec::new(), 0);
    for number in 0..files {
        let key = path_of(number, files);
        let path: PathBuf = tree.join(&key);
        let context = || format!("cannot read {}", path.display());
        let mut file = open(&path, advice).with_context(context)?;
        let len = file.metadata().with_context(context)?.len();
        record.clear();
        record.reserve(usize::try_from(len)?);
        file.read_to_end(&mut record).with_context(context)?;
        let (found, data) = head_of(&record).with_context(context)?;
        if u64::from(found) != number || u64::from(data) + HEAD_LEN != record.len() as u64 {
            bail!("{} is not record {number}: remove the sample with --clean", path.display());
        }
        take(key.as_bytes(), 0, &record);
        bytes += record.len() as u64;
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_digits_of_their_numbers() {
        for (number, files, path) in [
            (0, 50_000, "00/00/0"),
            (12_345, 50_000, "12/34/5"),
            (49_999, 50_000, "49/99/9"),
            (7, 10, "07"),
            (7, 9, "7"),
            (123, 5_000, "01/23"),
        ] {
            assert_eq!(path_of(number, files), path, "{number} of {files}");
        }
    }

    #[test]
    fn a_tree_and_its_composite_file_have_the_same_records() {
        let dir = tempfile::tempdir().unwrap();
        let sample = Sample { files: 123, size: 77 };
        let (tree, plain) = (dir.path().join("a.tree"), dir.path().join("a.plain"));
        make_tree(&tree, sample, || Ok(())).unwrap();
        write(&plain, sample, || Ok(())).unwrap();
        let (one, many) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
        let keep = |all: &std::cell::RefCell<Vec<(Vec<u8>, Vec<u8>)>>, key: &[u8], bytes: &[u8]| {
            all.borrow_mut().push((key.to_vec(), bytes.to_vec()));
        };
        let amount = (123, 123 * (77 + HEAD_LEN));
        let found = read(&plain, 123, 100, Advice::Normal, |key, _, bytes| keep(&one, key, bytes));
        assert_eq!(found.unwrap(), amount);
        let found = read_files(&tree, 123, Advice::Random, |key, _, bytes| keep(&many, key, bytes));
        assert_eq!(found.unwrap(), amount);
        assert_eq!(one, many);
        assert_eq!(one.borrow()[5].1[..8], [0, 0, 0, 5, 0, 0, 0, 77]);
        // What is cut off is no record.
        let bytes = fs::read(&plain).unwrap();
        fs::write(&plain, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&plain, 123, 100, Advice::Normal, |_, _, _| {}).is_err());
        fs::write(tree.join("00/5"), &bytes[..85]).unwrap();
        assert!(read_files(&tree, 123, Advice::Normal, |_, _, _| {}).is_err());
        check(Sample { files: 1, size: 1 << 31 }).unwrap_err();
    }
}
