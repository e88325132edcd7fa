//! Entries of packs and archives got by key: into files named as their keys, or one after another.

mod place;

use std::collections::VecDeque;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use self::place::{End, Target};
use super::contents::{self, Contents, Failure, Found, GetOptions, Getting, Piece};
use crate::pack::{FileKind, Key, Stop};
use crate::source::zeroes;
use crate::tree::Finished;

/// A result of getting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What ended it. What is wrong with one entry is in [`Became`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of reading, or the caller wanted it to end.
    #[error(transparent)]
    Contents(#[from] contents::Error),
    /// An error of the files that are written.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// The caller's writer failed.
    #[error("cannot write what was got")]
    Write(#[source] io::Error),
}

/// Where bodies go.
pub enum To<'a> {
    /// To a writer.
    Writer(&'a mut dyn io::Write),
    /// Into this file, as [`Draft::named`](crate::tree::Draft::named) makes it.
    File(PathBuf),
    /// Each into a file of its own below this directory, named as [`FileNames`] says.
    ///
    /// [`FileNames`]: crate::pack::FileNames
    Directory(PathBuf),
}

impl To<'_> {
    /// A path for one body, or for several files of their own. What can only be a directory is one.
    pub fn path(path: &Path, has_several: bool) -> Self {
        match has_several || path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir() {
            true => Self::Directory(path.to_path_buf()),
            false => Self::File(path.to_path_buf()),
        }
    }
}

/// How entries are got.
#[derive(Debug, Default)]
pub struct Get {
    /// Only entries of these groups; all if empty.
    pub groups: Vec<String>,
    /// Whether bodies come one after another, in the order of their keys. A directory, which has
    /// none, is then no reason to refuse.
    pub joined: bool,
    /// Whether what fits is written even where not all does, and the one file of joined bodies
    /// takes the place of another even where some of them could not be got, or all.
    pub force: bool,
    /// Asked whether to end.
    pub stop: Stop,
}

/// What became of one key.
#[derive(Debug)]
pub enum Became<'a> {
    /// Its body is where it was to go.
    Got {
        /// Bytes of it.
        len: u64,
        /// Its own file, if it has one.
        path: Option<&'a Path>,
    },
    /// It is not there, or cannot be read. Nothing of it is left.
    Failed(&'a Failure),
    /// It is not there, and the directory is that its slash at the end means.
    DirectoryMeant(&'a Key),
    /// It cannot go there.
    Refused(&'a Refused),
}

impl Became<'_> {
    /// It in one word, as reports have it.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Got { .. } => "ok",
            Self::Failed(failure) => failure.status(),
            Self::DirectoryMeant(_) => "missing",
            Self::Refused(_) => "refused",
        }
    }
}

/// Why an entry cannot go where it was to go.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It is a directory, and a body was wanted.
    #[error("{0} is a directory")]
    Directory(Key),
    /// Its key names no file there.
    #[error("cannot get {key}: {why}")]
    Name {
        /// The key.
        key: Key,
        /// Why.
        why: String,
    },
    /// Its file did not get its name: something is in the way, it could not be made durable, or
    /// there is no room for it and what fits was wanted.
    #[error("cannot get {key}")]
    Unnamed {
        /// The key.
        key: Key,
        /// Why.
        source: crate::Error,
    },
}

/// What was got.
#[derive(Debug, Default)]
pub struct Got {
    /// Entries.
    pub entries: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Keys of which nothing was got.
    pub failures: u64,
    /// Those of them that are not there.
    pub missing: u64,
    /// The file that was to be replaced, and stays: the new one would be empty or incomplete.
    pub kept: Option<PathBuf>,
}

/// Takes what became of each key, and all that was got so far.
type Each<'e, E> = dyn FnMut(&Key, &Became<'_>, &Got) -> Result<(), E> + 'e;

/// What is known of a key that waits to be reported.
enum Outcome {
    /// A file with a body of this length waits for its name.
    Waits(u64),
    Got(u64, Option<PathBuf>),
    Failed(Failure),
    Refused(Refused),
}

/// Keys that wait to be reported at most, before files get their names so that they can be.
const WAITING_MAX: usize = 4096;

/// Gets batch after batch.
pub struct Getter<'a> {
    contents: &'a dyn Contents,
    options: GetOptions,
    target: Target<'a>,
    /// Whether a directory, which has no body, is refused.
    wants_body: bool,
    force: bool,
    /// Keys that wait to be reported, in the order in which they were got: the first for the name
    /// of its file, the others for their turn.
    waiting: VecDeque<(Key, Outcome)>,
    got: Got,
}

impl std::fmt::Debug for Getter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Getter")
            .field("contents", &self.contents)
            .field("got", &self.got)
            .finish_non_exhaustive()
    }
}

impl Get {
    /// Begins: a directory is made, and a file of joined bodies begun.
    ///
    /// # Errors
    /// I/O errors of these.
    pub fn begin<'a>(self, contents: &'a dyn Contents, to: To<'a>) -> Result<Getter<'a>> {
        let Self { groups, joined, force, stop } = self;
        let target = Target::new(to, contents, joined, stop)?;
        let options = GetOptions { groups, any_order: target.is_directory(), stop };
        let wants_body = !joined && !target.is_directory();
        let (waiting, got) = (VecDeque::new(), Got::default());
        Ok(Getter { contents, options, target, wants_body, force, waiting, got })
    }
}

impl Getter<'_> {
    /// How many keys to pass to [`batch`](Self::batch) at once.
    pub fn keys_at_once(&self) -> usize {
        self.contents.keys_per_get(&self.options)
    }

    /// Gets these. `each` is called with what became of each key, and with all that was got so far:
    /// of a key with a file of its own once that has its name, which may be in a later call, or at
    /// the [end](Self::finish).
    ///
    /// # Errors
    /// Returns an error if reading or writing fails, and those of `each`.
    pub fn batch<E: From<Error>>(&mut self, keys: &[Key], each: &mut Each<'_, E>) -> Result<(), E> {
        let got = self.get(keys, each);
        if got.is_err() {
            // What waits gets its name all the same, and is reported. Another error of reporting is
            // no news then.
            self.target.publish();
            let _ = self.report_finished(each);
        }
        got
    }

    fn get<E: From<Error>>(&mut self, keys: &[Key], each: &mut Each<'_, E>) -> Result<(), E> {
        let contents = self.contents;
        let options = GetOptions { groups: self.options.groups.clone(), ..self.options };
        let mut getting = contents.get(keys, &options).map_err(Error::from)?;
        if let Some(path) = self.target.path().filter(|_| !self.force) {
            let checked = contents::check_room(&*getting, path);
            checked.inspect_err(|_| self.target.remove_if_new()).map_err(Error::from)?;
        }
        while let Some((key, found)) = getting.next().map_err(Error::from)? {
            let outcome = match found {
                Found::Body(kind) => self.write(key, kind, &mut *getting)?,
                Found::Failed(failure) => Outcome::Failed(failure),
            };
            self.take(key, outcome, each)?;
        }
        Ok(())
    }

    /// Makes everything durable under its names; `each` is called as [`batch`](Self::batch) calls
    /// it.
    ///
    /// # Errors
    /// I/O errors, and those of `each`.
    pub fn finish<E: From<Error>>(mut self, each: &mut Each<'_, E>) -> Result<Got, E> {
        self.target.publish();
        self.report_finished(each)?;
        let Self { target, force, mut got, .. } = self;
        if got.entries == 0 {
            target.remove_if_new();
        }
        got.kept = target.finish(force || got.entries > 0, force || got.failures == 0)?;
        Ok(got)
    }

    /// Reports a key in its turn.
    fn take<E: From<Error>>(&mut self, key: &Key, outcome: Outcome, each: &mut Each<'_, E>) -> Result<(), E> {
        if self.waiting.is_empty() && !matches!(outcome, Outcome::Waits(_)) {
            return self.report(key, &outcome, each);
        }
        self.waiting.push_back((key.clone(), outcome));
        if self.waiting.len() >= WAITING_MAX {
            self.target.publish();
        }
        self.report_finished(each)
    }

    /// Reports the keys whose files have their names by now, or could not get them, and those after
    /// them that waited for that alone.
    fn report_finished<E: From<Error>>(&mut self, each: &mut Each<'_, E>) -> Result<(), E> {
        for Finished { path, result } in self.target.finished() {
            let Some((key, Outcome::Waits(len))) = self.waiting.pop_front() else { break };
            let outcome = match result {
                Ok(()) => Outcome::Got(len, Some(path)),
                Err(source) => Outcome::Refused(Refused::Unnamed { key: key.clone(), source }),
            };
            self.report(&key, &outcome, each)?;
            while self.waiting.front().is_some_and(|(_, next)| !matches!(next, Outcome::Waits(_))) {
                let Some((key, outcome)) = self.waiting.pop_front() else { break };
                self.report(&key, &outcome, each)?;
            }
        }
        Ok(())
    }

    fn report<E: From<Error>>(
        &mut self,
        key: &Key,
        outcome: &Outcome,
        each: &mut Each<'_, E>,
    ) -> Result<(), E> {
        match outcome {
            Outcome::Waits(_) => Ok(()),
            Outcome::Got(len, path) => {
                self.got.entries += 1;
                self.got.bytes += len;
                each(key, &Became::Got { len: *len, path: path.as_deref() }, &self.got)
            }
            Outcome::Failed(failure) => self.fail(key, failure, each),
            Outcome::Refused(refused) => {
                self.got.failures += 1;
                each(key, &Became::Refused(refused), &self.got)
            }
        }
    }

    fn fail<E: From<Error>>(
        &mut self,
        key: &Key,
        failure: &Failure,
        each: &mut Each<'_, E>,
    ) -> Result<(), E> {
        self.got.failures += 1;
        if !matches!(failure, Failure::Missing(_)) {
            return each(key, &Became::Failed(failure), &self.got);
        }
        self.got.missing += 1;
        match self.directory_meant(key)? {
            Some(directory) => each(key, &Became::DirectoryMeant(&directory), &self.got),
            None => each(key, &Became::Failed(failure), &self.got),
        }
    }

    /// Of a key that is not there and ends in a slash: the directory that was meant, if there is
    /// one.
    fn directory_meant(&self, key: &Key) -> Result<Option<Key>> {
        let Some(path) = key.as_bytes().and_then(|path| path.strip_suffix(b"/")) else { return Ok(None) };
        let directory = Key::bytes(path).map_err(contents::Error::from)?;
        let options = GetOptions { stop: self.options.stop, ..GetOptions::default() };
        let mut getting = self.contents.get(std::slice::from_ref(&directory), &options)?;
        let is_there = matches!(getting.next()?, Some((_, Found::Body(Some(FileKind::Directory)))));
        drop(getting);
        Ok(is_there.then_some(directory))
    }

    /// Writes one body to its place.
    fn write(&mut self, key: &Key, kind: Option<FileKind>, getting: &mut dyn Getting<'_>) -> Result<Outcome> {
        if self.wants_body && kind == Some(FileKind::Directory) {
            return Ok(Outcome::Refused(Refused::Directory(key.clone())));
        }
        match self.pour(key, kind, getting) {
            // What is smaller may fit.
            Err(Error::Core(source)) if self.force && self.target.is_directory() && is_full(&source) => {
                Ok(Outcome::Refused(Refused::Unnamed { key: key.clone(), source }))
            }
            poured => poured,
        }
    }

    fn pour(&mut self, key: &Key, kind: Option<FileKind>, getting: &mut dyn Getting<'_>) -> Result<Outcome> {
        let stop = self.options.stop;
        let mut place = match self.target.place(key, kind, stop)? {
            Ok(place) => place,
            Err(refused) => return Ok(Outcome::Refused(refused)),
        };
        let mut len = 0;
        loop {
            stop.check().map_err(contents::Error::from)?;
            match getting.piece()? {
                Piece::Bytes(bytes) => {
                    place.write(bytes, stop)?;
                    len += bytes.len() as u64;
                }
                Piece::Hole(hole) => {
                    let mut left = hole;
                    while left > 0 {
                        stop.check().map_err(contents::Error::from)?;
                        left = left.saturating_sub(place.write_hole(left, stop)?);
                    }
                    len += hole;
                }
                Piece::End => {
                    return Ok(match place.finish()? {
                        End::There(path) => Outcome::Got(len, path),
                        End::Waits => Outcome::Waits(len),
                    });
                }
                Piece::Failed(failure) => {
                    place.give_up()?;
                    return Ok(Outcome::Failed(failure));
                }
            }
        }
    }
}

fn is_full(error: &crate::Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    error.io_kind().is_some_and(|kind| full.contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ops::contents::PackContents;
    use crate::ops::directory::open_pack;
    use crate::ops::pack::{Making, PackSources, open_writer};
    use crate::pack::{Attributes, OpenOptions, WriterOptions};

    struct Place(tempfile::TempDir, PackContents);

    impl Place {
        /// A pack of two records, a number and its namesake, and a directory.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("p");
            let mut writer = open_writer(&path, WriterOptions::default(), Making::Always).unwrap().writer;
            let directory = Attributes::of_file(FileKind::Directory, 0o755, 0, None);
            for key in [Key::bytes("a/one").unwrap(), Key::bytes("two").unwrap()] {
                writer.put("", &key, &Attributes::new(), key.as_bytes().unwrap()).unwrap();
            }
            for key in [Key::id(7), Key::bytes("id:7").unwrap()] {
                writer.put("", &key, &Attributes::new(), b"seven").unwrap();
            }
            writer.put("", &Key::bytes("d").unwrap(), &directory, b"").unwrap();
            writer.finish(false).unwrap();
            let contents = PackContents::new(open_pack(&path, OpenOptions::default()).unwrap(), path);
            Self(dir, contents)
        }

        /// What became of each key, as words, and of all.
        fn get<'p>(&'p self, get: Get, to: To<'p>, keys: &[Key]) -> (Vec<&'static str>, Got) {
            let mut getter = get.begin(&self.1, to).unwrap();
            let mut all = Vec::new();
            let mut each = |_: &Key, became: &Became<'_>, _: &Got| {
                all.push(became.status());
                Ok::<_, Error>(())
            };
            getter.batch(keys, &mut each).unwrap();
            let got = getter.finish(&mut each).unwrap();
            (all, got)
        }
    }

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::bytes(*name).unwrap()).collect()
    }

    #[test]
    fn each_becomes_the_file_that_its_key_names_and_what_has_no_name_costs_itself() {
        let place = Place::new();
        let out = place.0.path().join("out");
        let mut wanted = keys(&["a/one", "two", "absent", "d", "d/"]);
        wanted.extend([Key::id(7), Key::bytes("id:7").unwrap()]);
        let (mut became, got) = place.get(Get::default(), To::path(&out, true), &wanted);
        became.sort_unstable();
        assert_eq!(became, ["missing", "missing", "ok", "ok", "ok", "ok", "refused"]);
        assert_eq!((got.entries, got.failures, got.missing, got.kept), (4, 3, 2, None));
        assert_eq!(fs::read(out.join("a/one")).unwrap(), b"a/one");
        assert_eq!(fs::read(out.join("id:7")).unwrap(), b"seven");
        assert!(out.join("d").is_dir());
    }

    /// Before: the file was reported when it was written, and then it did not get its name.
    #[test]
    fn a_file_is_reported_when_it_has_its_name_or_cannot_get_it() {
        let place = Place::new();
        let out = place.0.path().join("out");
        let mut getter = Get::default().begin(&place.1, To::path(&out, true)).unwrap();
        let mut became = Vec::new();
        let mut each = |key: &Key, what: &Became<'_>, _: &Got| {
            if let Became::Got { path: Some(path), .. } = what {
                assert!(path.exists(), "{key} is not there");
            }
            became.push((key.to_string(), what.status()));
            Ok::<_, Error>(())
        };
        getter.batch(&keys(&["two", "a/one"]), &mut each).unwrap();
        fs::create_dir(out.join("two")).unwrap();
        let got = getter.finish(&mut each).unwrap();
        became.sort_unstable();
        assert_eq!(became, [("a/one".to_owned(), "ok"), ("two".to_owned(), "refused")]);
        assert_eq!((got.entries, got.bytes, got.failures), (1, 5, 1));
    }

    /// Before: they were written.
    #[test]
    fn holes_of_a_record_become_holes_of_its_file_and_are_zeros_to_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let [tree, pack, file] = ["tree", "p", "file"].map(|name| dir.path().join(name));
        fs::create_dir(&tree).unwrap();
        let sparse = fs::File::create(tree.join("sparse")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 9 << 20).unwrap();
        sparse.set_len(20 << 20).unwrap();
        drop(sparse);
        PackSources::new(vec![tree.clone()], pack.clone()).run(&mut ()).unwrap();
        let contents = PackContents::new(open_pack(&pack, OpenOptions::default()).unwrap(), pack);
        let mut bytes = Vec::new();
        for to in [To::File(file.clone()), To::Writer(&mut bytes)] {
            let mut getter = Get::default().begin(&contents, to).unwrap();
            let mut each = |_: &Key, became: &Became<'_>, _: &Got| {
                assert_eq!(became.status(), "ok");
                Ok::<_, Error>(())
            };
            getter.batch(&keys(&["sparse"]), &mut each).unwrap();
            assert_eq!(getter.finish(&mut each).unwrap().bytes, 20 << 20);
        }
        let whole = fs::read(tree.join("sparse")).unwrap();
        assert!(bytes == whole && fs::read(&file).unwrap() == whole);
        let blocks = |path: &Path| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap());
        assert!(blocks(&file) * 512 < 10 << 20, "{} blocks", blocks(&file));
    }

    #[test]
    fn one_body_needs_one_and_a_directory_has_none() {
        let place = Place::new();
        let mut bytes = Vec::new();
        let (became, got) = place.get(Get::default(), To::Writer(&mut bytes), &keys(&["d"]));
        assert_eq!((became.as_slice(), got.failures), (&["refused"][..], 1));
        let path = place.0.path().join("file");
        let (became, _) = place.get(Get::default(), To::path(&path, false), &keys(&["absent"]));
        assert_eq!((became.as_slice(), path.exists()), (&["missing"][..], false));
        place.get(Get::default(), To::path(&path, false), &keys(&["two"]));
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn joined_bodies_replace_a_file_only_if_all_are_there_or_that_is_forced() {
        let place = Place::new();
        let path = place.0.path().join("joined");
        let get = |force, names: &[&str]| {
            let get = Get { joined: true, force, ..Get::default() };
            let (_, got) = place.get(get, To::path(&path, false), &keys(names));
            (got.failures, got.kept.is_some(), fs::read(&path).ok())
        };
        assert_eq!(get(false, &["absent"]), (1, false, None), "no file is made of nothing");
        assert_eq!(get(false, &["two", "absent"]), (1, false, Some(b"two".to_vec())));
        assert_eq!(get(false, &["a/one", "absent"]), (1, true, Some(b"two".to_vec())));
        assert_eq!(get(false, &["a/one", "d", "two"]), (0, false, Some(b"a/onetwo".to_vec())));
        assert_eq!(get(true, &["two", "absent"]), (1, false, Some(b"two".to_vec())));
    }
}
