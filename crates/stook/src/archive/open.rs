//! Opening archives, and finding members.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::compressed::{self, AsReader};
use super::ends::{Ends, look};
use super::error::{Error, Fault, Result};
use super::format::Format;
use super::index::{Index, Summary};
use super::input::{Input as _, SourceInput, StreamInput};
use super::member::{Extent, Member, MemberKind, Method};
use super::reading::{Reading, ReadingOptions};
use super::scan;
use super::sidecar::{self, Found};
use super::source::{MemberSource, holes_of};
use super::spool::Spool;
use super::tar::header::{BLOCK_LEN, has_checksum, has_magic};
use super::tree::ArchiveTree;
use super::unpacked::Streams;
use super::zip;
use super::zip::directory::{LOCAL, LOCAL_LEN, local_len};
use crate::engine::{Access, Backend, EngineFactory, File};
use crate::extent::ByteRange;
use crate::source::{AccessRule, FileSource, Identity, Inodes, Source};
use crate::tree::{Holes, Node};

/// The longest wait until a change of an archive would show.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The longest file that is taken for a tar without members, when it is nothing but zeroes.
const EMPTY_TAR_MAX: u64 = 1 << 20;

/// How an archive is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Makes the engines that read.
    pub engines: Arc<dyn EngineFactory>,
    /// Which way bytes take into memory.
    pub access: AccessRule,
    /// Whether an index beside the archive is used and made; otherwise it is only held in memory,
    /// as it always is for an archive that is not a file.
    pub sidecar: bool,
    /// Whether a plain tar that is damaged, or ends, between or within its members is opened all
    /// the same, with those before that place: see [`Archive::damage`].
    pub partial: bool,
    /// The longest index in bytes. A member takes 104 and its name.
    pub max_index_bytes: u64,
    /// Where compressed members are unpacked to when they are read by range.
    pub spool: Spool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            engines: Arc::new(Backend::Auto),
            access: AccessRule::default(),
            sidecar: true,
            partial: false,
            max_index_bytes: 2 << 30,
            spool: Spool::default(),
        }
    }
}

/// Where the index of an open archive came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It lay beside the archive.
    Sidecar,
    /// It is the directory of the zip, or the layout itself.
    Directory,
    /// It was made in a pass over the archive.
    Made {
        /// Why the existing one was not used.
        useless: Option<String>,
        /// Why it does not lie there now.
        not_kept: Option<String>,
    },
}

/// An open archive. A clone shares its index and its source.
#[derive(Debug, Clone)]
pub struct Archive {
    source: Arc<dyn Source>,
    index: Index,
    origin: Origin,
    options: OpenOptions,
    is_file: bool,
    damage: Option<Arc<Error>>,
    passes: Arc<AtomicU64>,
    streams: Arc<Streams>,
}

impl Archive {
    /// Opens an archive.
    ///
    /// # Errors
    /// Returns [`Error::NotAnArchive`]; [`Error::Damaged`] and [`Error::Unsupported`] for its
    /// contents; or an I/O error.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        Self::open_with(path, options, &mut |_| true)
    }

    /// The same, with the bytes passed so far reported to `progress` while an index is made; when
    /// it says no, that ends.
    ///
    /// # Errors
    /// Returns those errors, and [`Error::Interrupted`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: OpenOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self> {
        let path = path.as_ref();
        let found = std::fs::metadata(path).map_err(|error| crate::Error::io("open", path, error))?;
        if !found.is_file() {
            return Err(not_one(path, "it is no regular file"));
        }
        let file = Arc::new(File::open(path)?);
        if options.sidecar {
            wait_for_the_clock(&file.identity()?);
        }
        let file: Arc<dyn Source> = Arc::new(FileSource::new(file)?);
        Self::open_source(file, Some(path), options, progress)
    }

    /// Opens an archive from any source. Its index is held in memory.
    ///
    /// A source with requests is read by few long ones: both ends; the headers of a tar, where
    /// members longer than 8 MiB are skipped; or the directory of a zip, usually together with the
    /// end. If they are not all of one state of the source, it is an error.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open).
    pub fn from_source(source: Arc<dyn Source>, options: OpenOptions) -> Result<Self> {
        Self::from_source_with(source, options, &mut |_| true)
    }

    /// The same with progress, as [`open_with`](Self::open_with) has it.
    ///
    /// # Errors
    /// Returns those errors, and [`Error::Interrupted`].
    pub fn from_source_with(
        source: Arc<dyn Source>,
        options: OpenOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self> {
        let source: Arc<dyn Source> = match source.reads_by_request() {
            true => Arc::new(Ends::read(source, &*options.engines)?),
            false => source,
        };
        Self::open_source(source, None, options, progress)
    }

    /// Opens an archive; `file` is its path, if it is a file that may have its index beside it.
    fn open_source(
        source: Arc<dyn Source>,
        file: Option<&Path>,
        options: OpenOptions,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self> {
        let recognised = recognise_source(&*source, &*options.engines)?;
        let (format, identity, is_file) = (recognised.format(), source.identity(), file.is_some());
        // The directory of a zip is an index already.
        let beside = file.filter(|_| options.sidecar && format != Format::Zip);
        let found = match beside {
            Some(path) => sidecar::look(path, format, &identity, options.max_index_bytes, &*options.engines),
            None => Found::Nothing,
        };
        let useless = match found {
            Found::Index(index) => {
                let sidecar = Self::from_parts(source, index, Origin::Sidecar, options);
                return Ok(Self { is_file, ..sidecar });
            }
            Found::Useless(why) => Some(why),
            Found::Nothing => None,
        };
        let (index, damage) = make(&source, &recognised, &options, progress)?;
        check_state(&*source)?;
        let not_kept = match beside {
            // It has no place for what is wrong.
            Some(_) if damage.is_some() => Some("the archive is damaged".into()),
            Some(path) => sidecar::publish(path, &index).err(),
            None if is_file => Some("it was not wanted".into()),
            None => Some("an index lies beside a file, and this is none".into()),
        };
        let origin = match format {
            Format::Zip => Origin::Directory,
            _ => Origin::Made { useless, not_kept },
        };
        let archive = Self::from_parts(source, index, origin, options);
        Ok(Self { is_file, damage: damage.map(Arc::new), ..archive })
    }

    /// One that is not a file, and has nothing wrong with it.
    pub(super) fn from_parts(
        source: Arc<dyn Source>,
        index: Index,
        origin: Origin,
        options: OpenOptions,
    ) -> Self {
        let (is_file, damage, passes) = (false, None, Arc::default());
        let streams = Arc::new(Streams::new(&options.spool));
        Self { source, index, origin, options, is_file, damage, passes, streams }
    }

    /// What is wrong with a tar that was opened as [partial](OpenOptions::partial): nothing is
    /// known of what stands from there on. It [has no end](Self::has_end) then.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_deref()
    }

    /// The file, or what else it is read from.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// Where its index is, or would be; `None` if it is not a file.
    pub fn index_path(&self) -> Option<PathBuf> {
        self.is_file.then(|| sidecar::path_of(self.path()))
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.index.summary().format
    }

    /// Its length in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.source.len()
    }

    /// The file as a whole, or what else it is read from.
    pub fn file(&self) -> Arc<dyn Source> {
        Arc::clone(&self.source)
    }

    /// Whether its bytes come by requests: members that lie beside each other are best read
    /// together, in the order in which they lie.
    pub fn reads_by_request(&self) -> bool {
        self.source.reads_by_request()
    }

    /// Its index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Where its index came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Members, of each key the last.
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The member with a key.
    pub fn find(&self, key: &[u8]) -> Option<Member<'_>> {
        self.index.find(key)
    }

    /// The members whose keys begin so, in the order of keys.
    pub fn members<'a>(&'a self, prefix: &'a [u8]) -> Members<'a> {
        Members { index: &self.index, prefix, next: self.index.first_from(prefix) }
    }

    /// The members whose keys are not before this one, in the order of keys.
    pub fn members_from(&self, first: &[u8]) -> Members<'_> {
        Members { index: &self.index, prefix: b"", next: self.index.first_from(first) }
    }

    /// The members with these keys, in key order, as independent files: if a hard link leads to a
    /// file that is not among them, or whose name a later member replaced, the link becomes the
    /// file itself, and later links lead to that one.
    pub fn selection(&self, select: impl Fn(&[u8]) -> bool) -> Vec<Member<'_>> {
        let mut members: Vec<Member<'_>> = self.members(b"").filter(|member| select(member.key)).collect();
        let files = SharedFile::among(members.iter().copied());
        for member in &mut members {
            let Some(file) = SharedFile::of(member, &files) else { continue };
            *member = match file.first == member.key {
                true => {
                    let node = Node { links: file.names, ..member.node };
                    Member { node, is_hard_link: false, link: b"", ..*member }
                }
                false => Member { link: file.first, ..*member },
            };
        }
        members
    }

    /// Its members as a tree of files; members that do not fit are [refused](ArchiveTree::refused).
    pub fn tree(&self) -> ArchiveTree {
        ArchiveTree::new(self)
    }

    /// How often a compressed tar was read from its front since it was opened: once for a
    /// [`Reading`] in the order of the archive, and again for every member that comes before the
    /// one read last. The pass that made the index is not counted.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Whether members can only be read in their order in the archive, from its front.
    pub fn is_sequential(&self) -> bool {
        self.format().is_sequential()
    }

    /// Whether it ends as its format wants it. A tar without the two blocks of zeros at its end may
    /// have been cut off after a member, so that any number of others is missing.
    pub fn has_end(&self) -> bool {
        self.index().summary().has_end
    }

    /// Notes the files on disk that it is read from, as [`Source::note_files`] does.
    pub fn note_files(&self, files: &mut Inodes) {
        self.source.note_files(files);
    }

    /// A member as a source of its own; `None` when its bytes do not lie in the file as they are.
    ///
    /// # Errors
    /// Returns an error if the header before a member of a zip is invalid, or reading it fails.
    pub fn source(&self, member: &Member<'_>) -> Result<Option<MemberSource>> {
        let is_plain = member.method == Method::Stored && member.has_body;
        Ok(match self.format() {
            Format::Tar | Format::Layout if is_plain && member.kind() != MemberKind::Symlink => {
                Some(self.piece(member, member.node.len, self.stored(member)))
            }
            Format::Zip if is_plain => {
                // The directory, which is longer, follows all members.
                let range = ByteRange::at(member.data_at, LOCAL_LEN as u64).unwrap_or_default();
                let header = look(&*self.source, range, &*self.options.engines)?;
                let len = local_len(&header).map_err(|fault| fault.of(self.path(), member.data_at))? as u64;
                let stored_at = member.data_at.saturating_add(len);
                let extents = vec![Extent { at: 0, stored_at, len: member.node.len }];
                Some(self.piece(member, member.node.len, extents).checked_by(member.crc32))
            }
            _ => None,
        })
    }

    /// Pieces of the file under the name of a member.
    pub(super) fn piece(&self, member: &Member<'_>, len: u64, extents: Vec<Extent>) -> MemberSource {
        self.piece_of(Arc::clone(&self.source), member, len, extents)
    }

    /// The same of what the file is unpacked to.
    pub(super) fn piece_of(
        &self,
        of: Arc<dyn Source>,
        member: &Member<'_>,
        len: u64,
        extents: Vec<Extent>,
    ) -> MemberSource {
        let mut path = self.path().as_os_str().to_os_string();
        path.push("//");
        path.push(String::from_utf8_lossy(member.key).as_ref());
        MemberSource::new(of, PathBuf::from(path), len, extents)
    }

    /// The stored pieces of a member, and their offsets.
    pub(super) fn stored(&self, member: &Member<'_>) -> Vec<Extent> {
        match (member.is_sparse, member.node.len) {
            (true, _) => self.index.extents(member.number),
            (false, 0) => Vec::new(),
            (false, len) => vec![Extent { at: 0, stored_at: member.data_at, len }],
        }
    }

    /// What is not stored of a member because it is zeros: the holes of what was put into a tar.
    pub fn holes(&self, member: &Member<'_>) -> Holes {
        match member.is_sparse {
            true => holes_of(&self.stored(member), member.node.len),
            false => Holes::default(),
        }
    }

    /// Reads members by their numbers, in the order given.
    ///
    /// # Errors
    /// Returns an error if the file has changed, or the engine cannot be made.
    pub fn read(&self, numbers: Vec<u64>) -> Result<Reading<'_>> {
        self.check_unchanged()?;
        Reading::new(self, numbers, ReadingOptions::of(self))
    }

    /// The tar in a compressed one, from its front: one more pass.
    pub(super) fn tar_from_front(&self, options: &ReadingOptions<'_>) -> Result<TarInput> {
        let access = options.access_to(self, &[ByteRange::to(self.file_bytes())]);
        let input = SourceInput::new(self.file(), options.engines, access)?;
        self.passes.fetch_add(1, Ordering::Relaxed);
        from_front(input, self.format())
    }

    /// The same for one who does not keep the archive open.
    pub(super) fn front(&self) -> TarFront {
        let (source, options, passes) = (self.file(), self.options.clone(), self.passes.clone());
        TarFront { source, options, format: self.format(), passes }
    }

    pub(super) fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    pub(super) fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Checks that the file is unchanged. No check is made if every read is checked anyway.
    ///
    /// # Errors
    /// Returns an error if it is not.
    pub fn check_unchanged(&self) -> Result<()> {
        check_state(&*self.source)
    }
}

/// A file with several names among some members.
#[derive(Debug)]
pub(super) struct SharedFile<'a> {
    /// The name whose header comes first: the file's own. The others are links to it.
    pub(super) first: &'a [u8],
    header_at: u64,
    names: u32,
}

impl<'a> SharedFile<'a> {
    /// Those among these members, by where their bytes are.
    pub(super) fn among(members: impl Iterator<Item = Member<'a>>) -> HashMap<u64, Self> {
        let mut files: HashMap<u64, Self> = HashMap::new();
        for member in members.filter(Self::is_name) {
            let (first, header_at) = (member.key, member.header_at);
            let file = files.entry(member.data_at).or_insert(Self { first, header_at, names: 0 });
            file.names = file.names.saturating_add(1);
            if header_at < file.header_at {
                (file.first, file.header_at) = (first, header_at);
            }
        }
        files
    }

    /// The file that a member is a name of, if it is one of them.
    pub(super) fn of<'f>(member: &Member<'_>, files: &'f HashMap<u64, Self>) -> Option<&'f Self> {
        files.get(&member.data_at).filter(|_| Self::is_name(member))
    }

    /// Whether a member is a file that has other names, or another name of one.
    fn is_name(member: &Member<'_>) -> bool {
        (member.kind() == MemberKind::HardLink && member.has_body) || member.node.links > 1
    }
}

/// Members in the order of keys.
#[derive(Debug)]
pub struct Members<'a> {
    index: &'a Index,
    prefix: &'a [u8],
    next: u64,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let member = self.index.member(self.next).filter(|member| member.key.starts_with(self.prefix))?;
        self.next += 1;
        Some(member)
    }
}

/// Times of files have ticks: a file written within the last one could be written again without a
/// trace. An index is only made for a file that is older than that.
fn wait_for_the_clock(identity: &Identity) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wait = identity.unsettled_for(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    if !wait.is_zero() {
        std::thread::sleep(wait.min(WAIT_MAX));
    }
}

pub(super) fn check_state(source: &dyn Source) -> Result<()> {
    match source.checks_reads() {
        true => Ok(()),
        false => Ok(source.check_unchanged()?),
    }
}

fn not_one(path: &Path, what: impl Into<String>) -> Error {
    Error::NotAnArchive { path: path.to_path_buf(), what: what.into() }
}

/// The format of a regular file, by its first and last bytes; `None` if it is not an archive.
/// Whether compressed data is a tar is only known after opening it.
///
/// # Errors
/// Returns an error if it cannot be read, or begins like a truncated or damaged archive.
pub fn recognise(path: impl AsRef<Path>) -> Result<Option<Format>> {
    let file = FileSource::open(path)?;
    match recognise_source(&file, &Backend::Auto) {
        Ok(recognised) => Ok(Some(recognised.format())),
        Err(Error::NotAnArchive { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The format of a source, by its first and last bytes.
fn recognise_source(source: &dyn Source, engines: &dyn EngineFactory) -> Result<Recognised> {
    let path = source.path();
    let first = look(source, ByteRange::to(source.len().min(BLOCK_LEN as u64)), engines)?;
    if let Some(block) = first.first_chunk::<BLOCK_LEN>()
        && (has_checksum(block) || is_empty_tar(source, engines)?)
    {
        return Ok(Recognised::Tar(Format::Tar));
    }
    if let Some(format) = compressed::format_of(&first) {
        return Ok(Recognised::Tar(format));
    }
    if let Some(directory) = zip::scan::find(source, engines)? {
        return Ok(Recognised::Zip(directory));
    }
    let begun = if first.starts_with(&LOCAL.to_le_bytes()) {
        "it begins as a zip does, and does not end as one: it was cut off, or its end is damaged"
    } else if has_magic(&first) {
        "it begins as a tar does, and its first header is cut off, or damaged"
    } else {
        return Err(not_one(path, "it is not a tar, tar.gz, tar.zst, tar.xz or zip"));
    };
    Err(Fault::damaged(0, begun).of(path, 0))
}

/// The recognised format of a file.
enum Recognised {
    Tar(Format),
    Zip(zip::scan::Directory),
}

impl Recognised {
    fn format(&self) -> Format {
        match self {
            Self::Tar(format) => *format,
            Self::Zip(_) => Format::Zip,
        }
    }
}

/// Whether a short source of whole blocks holds nothing but zeroes.
fn is_empty_tar(source: &dyn Source, engines: &dyn EngineFactory) -> Result<bool> {
    let len = source.len();
    if len > EMPTY_TAR_MAX || !len.is_multiple_of(BLOCK_LEN as u64) {
        return Ok(false);
    }
    let bytes = look(source, ByteRange::to(len), engines)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

fn make(
    source: &Arc<dyn Source>,
    recognised: &Recognised,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Index, Option<Error>)> {
    let identity = sidecar::without_device(&source.identity());
    let format = recognised.format();
    let summary = Summary { format, identity, has_end: true, replaced: 0 };
    let (engines, max) = (&*options.engines, options.max_index_bytes);
    if let Recognised::Zip(directory) = recognised {
        let index = zip::scan::index(source, *directory, engines, summary, max, progress)?;
        return Ok((index, None));
    }
    let access = match source.reads_by_request() {
        true => Access::Cached,
        false => options.access.decide(&**source, ByteRange::to(source.len())),
    };
    let input = SourceInput::new(Arc::clone(source), engines, access)?;
    match format.is_sequential() {
        false => scan::tar(input, summary, max, options.partial, progress),
        // Its checksum is over all of it.
        true => scan::tar(from_front(input, format)?, summary, max, false, progress),
    }
}

/// The decompressed input of a compressed file.
pub(super) type TarInput = StreamInput<Box<dyn Read + Send>>;

/// What opens the tar in a compressed tar at its front.
#[derive(Debug)]
pub(super) struct TarFront {
    source: Arc<dyn Source>,
    options: OpenOptions,
    format: Format,
    passes: Arc<AtomicU64>,
}

impl TarFront {
    pub(super) fn open(&self) -> Result<TarInput> {
        let whole = ByteRange::to(self.source.len());
        let access = self.options.access.decide(&*self.source, whole);
        let input = SourceInput::new(self.source.clone(), &*self.options.engines, access)?;
        self.passes.fetch_add(1, Ordering::Relaxed);
        from_front(input, self.format)
    }
}

/// The tar in a compressed file.
fn from_front(input: SourceInput, format: Format) -> Result<TarInput> {
    let path = input.path().to_path_buf();
    let opened = compressed::decompress(AsReader(input), format);
    let reader = opened.map_err(|error| crate::Error::io("decompress", &path, error))?;
    Ok(StreamInput::new(reader, path))
}
