//! Where the body of one record comes from: a regular file, whose length is known and which must
//! not change while it is read, or a stream, which is read to its end.
//!
//! The caller decides how to open files (a program may need to be interruptible while no data
//! comes); what an open file is, and what reading it must not miss, is decided here.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use crate::engine::File;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::Key;
use crate::pack::writer::{PackWriter, RecordWriter};
use crate::source::{FileSource, Source as _};

/// Bytes read at once.
const READ_LEN: usize = 1 << 20;

/// An open file as the input of a record.
#[derive(Debug)]
pub enum Input {
    /// A regular file.
    File(FileInput),
    /// What ends when it ends: a pipe, a device, a file whose length says nothing, as those of
    /// `/proc` and `/sys`.
    Stream,
    /// It has no bytes.
    Directory,
}

/// A regular file that becomes the body of a record.
#[derive(Debug)]
pub struct FileInput {
    source: FileSource,
    attributes: Attributes,
}

/// The body of one record.
pub enum Body<'a> {
    /// A regular file.
    File(FileInput),
    /// A stream, and its name for messages.
    Stream(&'a mut dyn Read, String),
}

impl fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Stream(_, name) => f.debug_tuple("Stream").field(name).finish(),
        }
    }
}

impl Body<'_> {
    /// Puts it as a record; returns the sequence number and the length in bytes. `progress` is
    /// called as by [`FileInput::copy_to`].
    ///
    /// # Errors
    /// Those of [`PackWriter::begin`], [`FileInput::copy_to`] and [`copy_stream`]; nothing of the
    /// record counts then.
    pub fn put<E: From<Error>>(
        self,
        writer: &mut PackWriter,
        group: &str,
        key: &Key,
        attributes: &Attributes,
        progress: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<(u64, u64), E> {
        let known = if let Self::File(file) = &self { Some(file.len()) } else { None };
        let mut record = writer.begin(group, key, attributes, known)?;
        let len = match self {
            Self::File(file) => file.copy_to(&mut record, progress).map(|()| file.len())?,
            Self::Stream(stream, name) => copy_stream(stream, &name, &mut record, progress)?,
        };
        Ok((record.finish()?, len))
    }
}

impl Input {
    /// Examines an open file. The path is for messages.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn of(file: &fs::File, path: &Path) -> Result<Self> {
        let failed_to = |operation| move |error| Error::from(crate::Error::io(operation, path, error));
        let metadata = file.metadata().map_err(failed_to("get the metadata of"))?;
        if metadata.is_dir() {
            return Ok(Self::Directory);
        }
        if !metadata.is_file() || is_made_when_read(file) || gives_more_than_its_length(file) {
            return Ok(Self::Stream);
        }
        let handle = file.try_clone().map_err(failed_to("open"))?;
        let source = FileSource::new(Arc::new(File::from_std(handle, path, false)))?;
        let mtime_ns = source.identity().mtime_ns;
        let attributes = Attributes::of_file(FileKind::File, metadata.mode() & 0o7777, mtime_ns, None);
        Ok(Self::File(FileInput { source, attributes }))
    }
}

impl FileInput {
    /// Its length when it was looked at.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether it had no bytes then.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The attributes of its record: a file, with its mode and modification time.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Writes its bytes into a record that was begun with its length. `progress` gets the number of
    /// bytes written since its last call, and 0 before the first of them.
    ///
    /// # Errors
    /// Returns an error if reading or writing fails, if the file has changed since it was examined,
    /// or if `progress` returns one.
    pub fn copy_to<E: From<Error>>(
        &self,
        record: &mut RecordWriter<'_>,
        progress: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = vec![0; READ_LEN];
        let (mut at, len) = (0, self.len());
        progress(0)?;
        while at < len {
            let wanted = usize::try_from(len - at).unwrap_or(READ_LEN).min(READ_LEN);
            let Some(part) = buffer.get_mut(..wanted) else { break };
            if let Err(error) = self.source.file().read_exact_at(part, at) {
                // A file that was cut is reported as one that changed.
                self.source.check_unchanged().map_err(Error::from)?;
                return Err(Error::from(error).into());
            }
            record.write(part)?;
            at += wanted as u64;
            progress(wanted as u64)?;
        }
        Ok(self.source.check_unchanged().map_err(Error::from)?)
    }
}

/// Writes a whole stream into a record and returns its length in bytes. `progress` is called as by
/// [`FileInput::copy_to`].
///
/// # Errors
/// Returns an error if reading or writing fails, or the error of `progress`.
pub fn copy_stream<E: From<Error>>(
    stream: &mut dyn Read,
    name: &str,
    record: &mut RecordWriter<'_>,
    progress: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<u64, E> {
    let mut buffer = vec![0; READ_LEN];
    let mut len = 0;
    progress(0)?;
    loop {
        let got = match stream.read(&mut buffer) {
            Ok(0) => return Ok(len),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(unread(name, source).into()),
        };
        let part = buffer.get(..got).ok_or_else(|| {
            unread(name, io::Error::other("a read gave more bytes than there was room for"))
        })?;
        record.write(part)?;
        len += got as u64;
        progress(got as u64)?;
    }
}

fn unread(name: &str, source: io::Error) -> Error {
    Error::Outside { operation: "read", name: name.to_owned(), source }
}

/// Whether stdin was closed when this program began: an empty record is not intended then. The
/// standard library replaces it by `/dev/null`, open for reading and writing; a shell opens
/// `</dev/null` only for reading. Programs that pass on their own `/dev/null`, open for both, have
/// no input for it either.
pub fn was_closed(stdin: impl AsFd) -> bool {
    let (Ok(opened), Ok(null)) = (rustix::fs::fstat(&stdin), rustix::fs::stat("/dev/null")) else {
        return false;
    };
    FileType::from_raw_mode(opened.st_mode) == FileType::CharacterDevice
        && opened.st_rdev == null.st_rdev
        && rustix::fs::fcntl_getfl(&stdin).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// Whether a file is in a file system that makes contents when they are read: lengths there say
/// nothing, that of every file of sysfs is 4096.
#[cfg(target_os = "linux")]
fn is_made_when_read(file: &fs::File) -> bool {
    // The type of the field differs between machines; the numbers have 32 bits.
    let magic = |stat: rustix::fs::StatFs| (stat.f_type as u64 & u64::from(u32::MAX)) as u32;
    rustix::fs::fstatfs(file).is_ok_and(|stat| makes_contents_when_read(magic(stat)))
}

#[cfg(not(target_os = "linux"))]
fn is_made_when_read(_: &fs::File) -> bool {
    false
}

/// Whether the file system with this number (`statfs(2)`) makes contents when they are read.
#[cfg(target_os = "linux")]
fn makes_contents_when_read(magic: u32) -> bool {
    matches!(
        magic,
        0x0000_9FA0 // proc
            | 0x6265_6572 // sysfs
            | 0x6462_6720 // debugfs
            | 0x7472_6163 // tracefs
            | 0x7363_6673 // securityfs
            | 0x0027_E0EB // cgroup
            | 0x6367_7270 // cgroup2
            | 0x6265_6570 // configfs
            | 0xCAFE_4A11 // bpf
    )
}

/// Whether a regular file reports length 0 but has bytes. A file that is just being written has a
/// length at the second look.
fn gives_more_than_its_length(file: &fs::File) -> bool {
    let is_empty = || file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    is_empty() && !matches!(file.read_at(&mut [0], 0), Ok(0)) && is_empty()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::pack::{Key, OpenOptions, Pack, PackWriter, WriterOptions};
    use crate::storage::{LocalStorage, LocalStorageOptions};

    fn writer(pack: &Path) -> PackWriter {
        let storage = LocalStorage::create(pack, LocalStorageOptions::default()).unwrap();
        PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap()
    }

    fn file_input(path: &Path) -> FileInput {
        match Input::of(&fs::File::open(path).unwrap(), path).unwrap() {
            Input::File(file) => file,
            other => panic!("a regular file is no {other:?}"),
        }
    }

    #[test]
    fn what_an_open_file_is_decides_how_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let of = |path: &Path| Input::of(&fs::File::open(path).unwrap(), path).unwrap();
        assert!(matches!(of(dir.path()), Input::Directory));
        assert!(matches!(of(Path::new("/dev/null")), Input::Stream));
        let path = dir.path().join("empty");
        fs::write(&path, "").unwrap();
        let empty = file_input(&path);
        assert!(empty.is_empty() && empty.attributes().file_kind() == Some(FileKind::File));
        #[cfg(target_os = "linux")]
        assert!(matches!(of(Path::new("/proc/version")), Input::Stream), "its length says 0");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lengths_are_not_believed_where_contents_are_made_when_they_are_read() {
        assert!(is_made_when_read(&fs::File::open("/proc/version").unwrap()));
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_made_when_read(&fs::File::create_new(dir.path().join("file")).unwrap()));
        // sysfs and cgroup2 are not mounted everywhere; ext4 and tmpfs are what files are kept in.
        assert!([0x6265_6572, 0x6367_7270].into_iter().all(makes_contents_when_read));
        assert!(![0xEF53, 0x0102_1994].into_iter().any(makes_contents_when_read));
    }

    #[test]
    fn only_what_stands_for_a_closed_stdin_is_taken_for_one() {
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        assert!(was_closed(&null));
        assert!(!was_closed(fs::File::open("/dev/null").unwrap()), "somebody said so");
        let dir = tempfile::tempdir().unwrap();
        assert!(!was_closed(fs::File::create_new(dir.path().join("file")).unwrap()));
    }

    #[test]
    fn files_and_streams_become_the_bodies_of_records() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pack) = (dir.path().join("file"), dir.path().join("pack"));
        let bytes: Vec<u8> = (0..2_500_000_u32).map(|number| (number % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let (file, mut writer) = (file_input(&path), writer(&pack));
        let mut reported = Vec::new();
        let mut progress = |more| {
            reported.push(more);
            Ok::<(), Error>(())
        };
        let key = |text: &str| Key::bytes(text).unwrap();
        let mut record = writer.begin("", &key("file"), file.attributes(), Some(file.len())).unwrap();
        file.copy_to(&mut record, &mut progress).unwrap();
        record.finish().unwrap();
        let mut record = writer.begin("", &key("stream"), &Attributes::new(), None).unwrap();
        let len = copy_stream(&mut bytes.as_slice(), "bytes", &mut record, &mut progress).unwrap();
        record.finish().unwrap();
        writer.finish(true).unwrap();
        assert_eq!((len, reported.iter().sum::<u64>()), (bytes.len() as u64, 2 * bytes.len() as u64));
        let pack = Pack::open_path(&pack, OpenOptions::default()).unwrap();
        for name in ["file", "stream"] {
            assert!(pack.get(&key(name)).unwrap().unwrap().body == bytes, "{name}");
        }
    }

    #[test]
    fn a_file_that_grows_or_is_cut_while_it_is_read_is_reported_and_nothing_of_it_counts() {
        for grows in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let (path, pack) = (dir.path().join("file"), dir.path().join("pack"));
            fs::write(&path, vec![7; 3 << 20]).unwrap();
            let (file, mut writer) = (file_input(&path), writer(&pack));
            let key = Key::bytes("file").unwrap();
            let mut record = writer.begin("", &key, file.attributes(), Some(file.len())).unwrap();
            let changed = fs::OpenOptions::new().append(true).open(&path).unwrap();
            let mut change = |_| {
                match grows {
                    true => (&changed).write_all(b"more").unwrap(),
                    false => changed.set_len(5).unwrap(),
                }
                Ok::<(), Error>(())
            };
            let error = file.copy_to(&mut record, &mut change).unwrap_err();
            assert!(matches!(&error, Error::Core(crate::Error::SourceChanged { .. })), "{grows}: {error}");
            drop(record);
            assert!(!writer.contains(&key).unwrap());
        }
    }

    #[test]
    fn the_observer_can_end_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir.path().join("pack"));
        let mut record = writer.begin("", &Key::id(7), &Attributes::new(), None).unwrap();
        let mut stop = |_| Err(Error::Stopped);
        let stopped = copy_stream(&mut io::repeat(1), "ones", &mut record, &mut stop);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }
}
