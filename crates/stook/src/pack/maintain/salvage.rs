//! Opening a pack whose newest manifest cannot be read: by an older one, or by its segments alone.

use std::io::ErrorKind;

use crate::extent::ByteRange;
use crate::pack::damages::{DamageLog, Damages};
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::deletes::{DELETES_LEN_AT, DELETES_LEN_MAX, DeletionVector};
use crate::pack::format::footer::{FOOTER_LEN, Footer, FooterKind, LastFrame, Tally};
use crate::pack::format::manifest::{Manifest, PackState, SegmentEntry, SegmentState, VectorRef};
use crate::pack::format::segment::SegmentHeader;
use crate::pack::read::reader::Reader;
use crate::pack::state::copies::{Copies, Layout, read_copies};
use crate::pack::state::names::PackFile;
use crate::pack::state::segment::{Findings, Segment, refused};
use crate::pack::state::snapshot::{Opening, Snapshot, Uncommitted, WantedState, newest, read_manifest};
use crate::source::Source;
use crate::storage::{Entry, Storage};
use crate::tree::Kind;

impl Snapshot {
    /// The newest state, or the best that can be reconstructed, with notes about that.
    pub(crate) fn salvage(storage: &dyn Storage, reader: &Reader) -> Result<(Self, Vec<String>)> {
        let damage = match Self::load(storage, reader, WantedState::default()) {
            // Nothing is known to be wrong: a user who may read it can open it as it is.
            Err(Error::Core(error)) if error.io_kind() == Some(ErrorKind::PermissionDenied) => {
                return Err(error.into());
            }
            Err(Error::Damaged(damage)) if !damage.is_denied() => damage,
            Err(Error::NotAPack { path, why }) => {
                let has_segments = storage
                    .list()?
                    .iter()
                    .any(|file| matches!(PackFile::parse(&file.name), Some(PackFile::Segment(_))));
                if !has_segments {
                    return Err(Error::NotAPack { path, why });
                }
                Damage { file: path, offset: 0, key: None, what: "it holds no manifest".into(), cause: None }
            }
            Err(Error::Core(error)) => {
                let manifest = newest(&storage.list()?).map(|last| PackFile::Manifest(last).to_string());
                Damage::of_unopened(error, storage.path(&manifest.unwrap_or_default()))?
            }
            loaded => {
                let snapshot = loaded?;
                let note = "what needs a newer version of stook is left out; this one writes nothing to it";
                let has_newer = snapshot.lost.iter().any(Damage::is_of_newer);
                return Ok((snapshot, has_newer.then(|| note.to_owned()).into_iter().collect()));
            }
        };
        let files = storage.list()?;
        let (mut manifest, note) = best_manifest(storage, reader, &files, &damage)?;
        let mut findings = Findings { damages: [damage].into_iter().collect(), ..Findings::default() };
        add_unnamed(storage, reader, &files, &mut manifest, &mut findings.damages)?;
        let mut segments = Vec::new();
        let log = DamageLog::default();
        let opening =
            Opening { storage, reader, manifest: &manifest, uncommitted: Uncommitted::All, log: log.clone() };
        let mut lost = Vec::new();
        for number in 0..manifest.segments.len() {
            match Segment::open(&opening, number, &mut findings)? {
                Some(segment) => segments.push(segment),
                None => lost.extend(findings.damages.last().cloned()),
            }
        }
        let Findings { damages, torn, fresh } = findings;
        log.note(damages);
        let last = fresh.iter().map(|(_, record)| record.sequence).chain(segments.iter().map(last_sequence));
        // What the lists of the dead name as newer counts, though the manifest knows nothing of it.
        let sequence_next = last.max().unwrap_or(0).saturating_add(1);
        manifest.sequence_next = manifest.sequence_next.max(sequence_next);
        let sequence_committed = 0;
        let hold = None;
        let snapshot = Self {
            manifest,
            segments,
            torn,
            log,
            lost,
            manifest_lost: true,
            files,
            sequence_committed,
            hold,
            at_ns: None,
            read_from: None,
        };
        Ok((snapshot, vec![note]))
    }
}

/// The highest sequence number that a segment, or the list of its dead records, has.
fn last_sequence(segment: &Segment) -> u64 {
    let deaths = segment.deaths.values().map(|death| death.sequence);
    deaths.fold(segment.tally.sequence_last, u64::max)
}

/// The newest manifest that can be read, or one without segments.
fn best_manifest(
    storage: &dyn Storage,
    reader: &Reader,
    files: &[Entry],
    damage: &Damage,
) -> Result<(Manifest, String)> {
    let mut generations: Vec<u64> = files
        .iter()
        .filter_map(|file| match PackFile::parse(&file.name) {
            Some(PackFile::Manifest(generation)) => Some(generation),
            _ => None,
        })
        .collect();
    generations.sort_unstable_by(|a, b| b.cmp(a));
    for generation in generations {
        match read_manifest(storage, reader, generation) {
            Ok(Copies { value: manifest, .. }) => {
                let note = format!(
                    "{} is damaged, and the newest state cannot be opened; generation {generation} was used, and what else \
                     there is was searched",
                    damage.file.display()
                );
                return Ok((manifest, note));
            }
            Err(Error::Damaged(_) | Error::Limit { .. } | Error::Unsupported { .. }) => {}
            Err(Error::Core(error)) => {
                let path = storage.path(&PackFile::Manifest(generation).to_string());
                Damage::of_unopened(error, path)?;
            }
            Err(error) => return Err(error),
        }
    }
    let manifest = Manifest {
        generation: 1,
        pack_nonce: [0; 16],
        writer_nonce: [0; 16],
        published_ns: 0,
        state: PackState::Incomplete,
        chunk_log2: 16,
        sequence_next: 1,
        time_last_ns: i64::MIN,
        segment_next: 1,
        segment_len: 4 << 30,
        groups: Vec::new(),
        segments: Vec::new(),
        roots: Vec::new(),
        unfinished: Vec::new(),
        history_from_ns: None,
        moved: false,
        moved_from: Vec::new(),
    };
    let note = "no manifest can be read; all segments were searched, and what had been deleted or replaced before the last \
                compaction may be there again";
    Ok((manifest, note.into()))
}

/// Adds the segments that are there and not named, with their newest deletion vectors.
fn add_unnamed(
    storage: &dyn Storage,
    reader: &Reader,
    files: &[Entry],
    manifest: &mut Manifest,
    damages: &mut Damages,
) -> Result<()> {
    let is_first = manifest.segments.is_empty();
    for file in files {
        let Some(PackFile::Segment(id)) = PackFile::parse(&file.name) else { continue };
        if file.kind != Kind::File {
            continue;
        }
        if manifest.segments.iter().any(|entry| entry.id == id) {
            continue;
        }
        let source = match storage.open(&file.name) {
            Ok(source) => source,
            Err(error) => {
                damages.push(Damage::of_unopened(error, storage.path(&file.name))?);
                continue;
            }
        };
        let header_range = ByteRange::to(source.len().min(UNIT as u64));
        let header = reader.read(source.as_ref(), header_range).and_then(|bytes| {
            SegmentHeader::decode(&bytes).map_err(|invalid| refused(source.as_ref(), 0, invalid))
        });
        let header = match header {
            Ok(header) => header,
            Err(Error::Damaged(damage)) => {
                damages.push(damage);
                continue;
            }
            Err(Error::Unsupported { path, what }) => {
                damages.push(Damage::of_newer(path, &what));
                continue;
            }
            Err(error) => return Err(error),
        };
        if is_first {
            manifest.pack_nonce = header.pack_nonce;
            manifest.chunk_log2 = header.chunk_log2;
        }
        if header.pack_nonce != manifest.pack_nonce || header.id != id {
            continue;
        }
        let footer = footer_of(reader, source.as_ref(), &header)?;
        let vector = newest_vector(storage, reader, files, id)?;
        let group = manifest.groups.iter().position(|name| *name == header.group).unwrap_or_else(|| {
            manifest.groups.push(header.group.clone());
            manifest.groups.len() - 1
        });
        let entry = entry_of(&header, footer.as_ref(), source.len());
        manifest.segments.push(SegmentEntry { group: group as u32, vector, ..entry });
    }
    manifest.segments.sort_by_key(|entry| entry.id);
    Ok(())
}

/// What a manifest would say about a segment, as far as its header and footer show. In an unsealed
/// one nothing is committed: all of its frames must be read.
fn entry_of(header: &SegmentHeader, footer: Option<&Footer>, len: u64) -> SegmentEntry {
    SegmentEntry {
        id: header.id,
        nonce: header.nonce,
        group: 0,
        state: footer.map_or(SegmentState::Active, |_| SegmentState::Sealed),
        committed_len: footer.map_or(UNIT as u64, |_| len),
        frames_end: footer.map_or(UNIT as u64, |footer| footer.frames.end()),
        tally: footer.map_or(Tally::default(), |footer| footer.tally),
        last_frame: footer.map_or(LastFrame::default(), |footer| footer.last_frame),
        dead_records: 0,
        dead_bytes: 0,
        vector: None,
        form: header.form(),
    }
}

/// The footer of a segment that is sealed.
fn footer_of(reader: &Reader, source: &dyn Source, header: &SegmentHeader) -> Result<Option<Footer>> {
    let len = source.len();
    let range = ByteRange::new(len.saturating_sub(FOOTER_LEN as u64), len).unwrap_or_default();
    let (footer, _) = reader.read_around(source, range)?;
    let footer = Footer::decode(&footer, FooterKind::Sealed, len).ok();
    Ok(footer.filter(|footer| (footer.nonce, footer.segment) == (header.nonce, header.id)))
}

fn newest_vector(
    storage: &dyn Storage,
    reader: &Reader,
    files: &[Entry],
    segment: u64,
) -> Result<Option<VectorRef>> {
    let files = files.iter().filter(|file| file.kind == Kind::File);
    let generations = files.filter_map(|file| match PackFile::parse(&file.name) {
        Some(PackFile::Deletes(id, generation)) if id == segment => Some(generation),
        _ => None,
    });
    let Some(generation) = generations.max() else { return Ok(None) };
    let name = PackFile::Deletes(segment, generation).to_string();
    let source = match storage.open(&name) {
        Ok(source) => source,
        Err(error) => {
            // It is reported when the segment is opened.
            Damage::of_unopened(error, storage.path(&name))?;
            return Ok(Some(VectorRef { generation, len: 0, crc: 0 }));
        }
    };
    let layout = Layout { len_at: DELETES_LEN_AT, len_max: DELETES_LEN_MAX, copy_len: None };
    let (len, crc) = match read_copies(reader, source.as_ref(), layout, DeletionVector::decode) {
        Ok(Copies { bytes, .. }) => {
            (bytes.len() as u64, bytes.last_chunk::<4>().map_or(0, |crc| u32::from_le_bytes(*crc)))
        }
        // So is what is wrong with it.
        Err(Error::Damaged(_) | Error::Unsupported { .. }) => (0, 0),
        Err(other) => return Err(other),
    };
    Ok(Some(VectorRef { generation, len, crc }))
}
