//! Opening archives, and finding members.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::compressed::{self, AsReader};
use super::error::{Error, Fault, Result};
use super::format::Format;
use super::index::{Index, Summary};
use super::input::{FileInput, Input as _, StreamInput};
use super::member::{Extent, Member, MemberKind, Method};
use super::reading::Reading;
use super::scan;
use super::sidecar::{self, Found};
use super::source::MemberSource;
use super::tar::header::{BLOCK_LEN, has_checksum, has_magic};
use super::zip;
use super::zip::directory::{LOCAL, LOCAL_LEN, local_len};
use crate::engine::{Backend, EngineFactory, File};
use crate::extent::ByteRange;
use crate::source::{AccessRule, FileSource, Identity, Source};

/// What is waited at most until a change of an archive would show.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The longest file that is taken for a tar without members, when it is nothing but zeroes.
const EMPTY_TAR_MAX: u64 = 1 << 20;

/// How an archive is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// What makes the engines that read.
    pub engines: Arc<dyn EngineFactory>,
    /// Which way bytes take into memory.
    pub access: AccessRule,
    /// Whether an index beside the archive is used and made; else it is only held in memory.
    pub sidecar: bool,
    /// The longest index in bytes. A member takes 104 and its name.
    pub max_index_bytes: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            engines: Arc::new(Backend::Auto),
            access: AccessRule::default(),
            sidecar: true,
            max_index_bytes: 2 << 30,
        }
    }
}

/// Where the index of an open archive came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It lay beside the archive.
    Sidecar,
    /// It is the directory of the zip.
    Directory,
    /// It was made in a pass over the archive.
    Made {
        /// What was wrong with the one that lay there.
        useless: Option<String>,
        /// Why it does not lie there now.
        not_kept: Option<String>,
    },
}

/// An open archive.
#[derive(Debug)]
pub struct Archive {
    file: Arc<FileSource>,
    index: Index,
    origin: Origin,
    options: OpenOptions,
}

impl Archive {
    /// Opens an archive.
    ///
    /// # Errors
    /// [`Error::NotAnArchive`]; [`Error::Damaged`] and [`Error::Unsupported`] of what it holds; an
    /// I/O error.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        Self::open_with(path, options, &mut |_| true)
    }

    /// The same, with the bytes passed so far reported to `progress` while an index is made; when
    /// it says no, that ends.
    ///
    /// # Errors
    /// Those, and [`Error::Interrupted`].
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
        let file = Arc::new(FileSource::new(file)?);
        let recognised = recognise_file(&file)?;
        let format = recognised.format();
        let identity = file.identity();
        // The directory of a zip is an index already.
        let has_sidecar = options.sidecar && format != Format::Zip;
        let look = |options: &OpenOptions| match has_sidecar {
            true => sidecar::look(path, format, &identity, options.max_index_bytes, &*options.engines),
            false => Found::Nothing,
        };
        let useless = match look(&options) {
            Found::Index(index) => return Ok(Self { file, index, origin: Origin::Sidecar, options }),
            Found::Useless(why) => Some(why),
            Found::Nothing => None,
        };
        let index = make(&file, &recognised, &options, progress)?;
        file.check_unchanged()?;
        if format == Format::Zip {
            return Ok(Self { file, index, origin: Origin::Directory, options });
        }
        let not_kept = match has_sidecar {
            true => sidecar::publish(path, &index).err(),
            false => Some("it was not wanted".into()),
        };
        Ok(Self { file, index, origin: Origin::Made { useless, not_kept }, options })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where its index is, or would be.
    pub fn index_path(&self) -> PathBuf {
        sidecar::path_of(self.path())
    }

    /// What it is.
    pub fn format(&self) -> Format {
        self.index.summary().format
    }

    /// Its length in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file.len()
    }

    /// The file as a whole.
    pub fn file(&self) -> Arc<dyn Source> {
        self.file.clone()
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

    /// The members with these keys, in the order of keys, as files of their own: a further name of
    /// a file that is not among them, or whose name a later member took, is the file itself, and
    /// names of it that come later are names of that one.
    pub fn selection(&self, select: impl Fn(&[u8]) -> bool) -> Vec<Member<'_>> {
        let mut members: Vec<Member<'_>> = self.members(b"").filter(|member| select(member.key)).collect();
        // By where the bytes are: the name that holds them, where its header is, and how many names
        // there are.
        let mut files: HashMap<u64, (&[u8], u64, u32)> = HashMap::new();
        let is_name = |member: &Member<'_>| member.kind == MemberKind::HardLink && member.has_body;
        let sharing = |member: &Member<'_>| is_name(member) || member.names > 1;
        for member in members.iter().filter(|member| sharing(member)) {
            let file = files.entry(member.data_at).or_insert((member.key, member.header_at, 0));
            file.2 = file.2.saturating_add(1);
            if member.header_at < file.1 {
                (file.0, file.1) = (member.key, member.header_at);
            }
        }
        for member in members.iter_mut().filter(|member| sharing(member)) {
            let Some(&(first, _, names)) = files.get(&member.data_at) else { continue };
            *member = match first == member.key {
                true => Member { kind: MemberKind::File, link: b"", names, ..*member },
                false => Member { link: first, ..*member },
            };
        }
        members
    }

    /// Whether members can only be read in their order in the archive, from its front.
    pub fn is_sequential(&self) -> bool {
        self.format().is_sequential()
    }

    /// A member as a source of its own; `None` when its bytes do not lie in the file as they are.
    ///
    /// # Errors
    /// When the header before a member of a zip is none, and what reading it meets.
    pub fn source(&self, member: &Member<'_>) -> Result<Option<MemberSource>> {
        let is_plain = member.method == Method::Stored && member.has_body;
        Ok(match self.format() {
            Format::Tar if is_plain && member.kind != MemberKind::Symlink => {
                Some(self.piece(member, member.len, self.stored(member)))
            }
            Format::Zip if is_plain => {
                let mut header = [0; LOCAL_LEN];
                let got = self.file.file().read_at(&mut header, member.data_at)?;
                let header = header.get(..got).unwrap_or_default();
                let len = local_len(header).map_err(|fault| fault.of(self.path(), member.data_at))? as u64;
                let stored_at = member.data_at.saturating_add(len);
                Some(self.piece(member, member.len, vec![Extent { at: 0, stored_at, len: member.len }]))
            }
            _ => None,
        })
    }

    /// Pieces of the file under the name of a member.
    pub(super) fn piece(&self, member: &Member<'_>, len: u64, extents: Vec<Extent>) -> MemberSource {
        let mut path = self.path().as_os_str().to_os_string();
        path.push("//");
        path.push(String::from_utf8_lossy(member.key).as_ref());
        MemberSource::new(self.file.clone(), PathBuf::from(path), len, extents)
    }

    /// What is stored of a member, and where.
    pub(super) fn stored(&self, member: &Member<'_>) -> Vec<Extent> {
        match (member.is_sparse, member.len) {
            (true, _) => self.index.extents(member.number),
            (false, 0) => Vec::new(),
            (false, len) => vec![Extent { at: 0, stored_at: member.data_at, len }],
        }
    }

    /// Reads members by their numbers, in the order given.
    ///
    /// # Errors
    /// When the file is no longer what it was, or the engine cannot be made.
    pub fn read(&self, numbers: Vec<u64>) -> Result<Reading<'_>> {
        self.file.check_unchanged()?;
        Reading::new(self, numbers)
    }

    pub(super) fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Whether the file is still what it was.
    ///
    /// # Errors
    /// When it is not.
    pub fn check_unchanged(&self) -> Result<()> {
        Ok(self.file.check_unchanged()?)
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

/// Times of files have ticks: what was written within the last one could be written again without a
/// trace. An index is only made of a file that is older than that.
fn wait_for_the_clock(identity: &Identity) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wait = identity.unsettled_for(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    if !wait.is_zero() {
        std::thread::sleep(wait.min(WAIT_MAX));
    }
}

fn not_one(path: &Path, what: impl Into<String>) -> Error {
    Error::NotAnArchive { path: path.to_path_buf(), what: what.into() }
}

/// What a regular file is, by its first bytes and its last; `None` where it is no archive. That
/// what is compressed is a tar is only known to whoever opens it.
///
/// # Errors
/// When it cannot be read, or begins as an archive does that was cut off or is damaged.
pub fn recognise(path: impl AsRef<Path>) -> Result<Option<Format>> {
    let file = FileSource::open(path)?;
    match recognise_file(&file) {
        Ok(recognised) => Ok(Some(recognised.format())),
        Err(Error::NotAnArchive { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a file is, by its first bytes.
fn recognise_file(file: &FileSource) -> Result<Recognised> {
    let path = file.path();
    let mut block = [0; BLOCK_LEN];
    let got = file.file().read_at(&mut block, 0)?;
    if got == BLOCK_LEN && has_checksum(&block) {
        return Ok(Recognised::Tar(Format::Tar));
    }
    if got == BLOCK_LEN && is_empty_tar(file)? {
        return Ok(Recognised::Tar(Format::Tar));
    }
    let first = block.get(..got).unwrap_or_default();
    if let Some(format) = compressed::format_of(first) {
        return Ok(Recognised::Tar(format));
    }
    if let Some(directory) = zip::scan::find(file)? {
        return Ok(Recognised::Zip(directory));
    }
    let begun = if first.starts_with(&LOCAL.to_le_bytes()) {
        "it begins as a zip does, and does not end as one: it was cut off, or its end is damaged"
    } else if has_magic(first) {
        "it begins as a tar does, and its first header is cut off, or damaged"
    } else {
        return Err(not_one(path, "it is not a tar, tar.gz, tar.zst or zip"));
    };
    Err(Fault::damaged(0, begun).of(path, 0))
}

/// What a file was recognised as.
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

/// Whether a short file of whole blocks holds nothing but zeroes.
fn is_empty_tar(file: &FileSource) -> Result<bool> {
    let len = file.len();
    if len > EMPTY_TAR_MAX || !len.is_multiple_of(BLOCK_LEN as u64) {
        return Ok(false);
    }
    let mut bytes = vec![0; len as usize];
    file.file().read_exact_at(&mut bytes, 0)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

fn make(
    file: &Arc<FileSource>,
    recognised: &Recognised,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Index> {
    let identity = sidecar::without_device(&file.identity());
    let format = recognised.format();
    let summary = Summary { format, identity, has_end: true, replaced: 0 };
    let (engines, max) = (&*options.engines, options.max_index_bytes);
    if let Recognised::Zip(directory) = recognised {
        return zip::scan::index(file, *directory, engines, summary, max, progress);
    }
    let access = options.access.decide(&**file, ByteRange::to(file.len()));
    let input = FileInput::new(file.clone(), engines, access)?;
    match format.is_sequential() {
        false => scan::tar(input, summary, max, progress),
        true => scan::tar(from_front(input, format)?, summary, max, progress),
    }
}

/// The tar in a compressed file.
pub(super) fn from_front(input: FileInput, format: Format) -> Result<StreamInput<Box<dyn Read + Send>>> {
    let path = input.path().to_path_buf();
    let opened = compressed::decompress(AsReader(input), format);
    let reader = opened.map_err(|error| crate::Error::io("decompress", &path, error))?;
    Ok(StreamInput::new(reader, path))
}
