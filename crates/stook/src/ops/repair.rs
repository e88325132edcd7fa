//! Repair of packs: intact records in a new pack, and the rest in a quarantine beside it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::directory::open_directory;
use super::json::JsonDamage;
use crate::pack::{self, OpenOptions, Pack, Repaired, SegmentInfo, WriterOptions};
use crate::report::json::{Document, TextOrBytes};
use crate::report::units::bytes_decimal;
use crate::source::check_path;
use crate::storage::{LocalStorage, LocalStorageOptions, Storage, free_at};

/// The name of the report beside the quarantined bytes.
const REPORT: &str = "report.json";

/// A result of repairing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of a repair: unlike with [`pack::Error::Stopped`], an interruption by the caller is not a
/// failed writer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pack, or below it.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// The directories that are made.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// Something has the name of the new pack, or of its quarantine.
    #[error("{} is already there: choose another name for the new pack", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// The file system of the new pack has too little room.
    #[error(
        "about {} would be needed in {}, and {} are free: make room, or choose another place",
        bytes_decimal(*needed), place.display(), bytes_decimal(*free)
    )]
    NoSpace {
        /// Bytes that it would take.
        needed: u64,
        /// Bytes that there are.
        free: u64,
        /// Where the new pack was to be.
        place: PathBuf,
    },
    /// The caller ended it.
    #[error("interrupted")]
    Interrupted,
}

/// The result of a repair, and its paths.
#[derive(Debug)]
pub struct Report {
    /// The new pack.
    pub new: PathBuf,
    /// The directory of the bytes that could not be saved, if there are any.
    pub quarantine: PathBuf,
    /// The counts and damage of the repair.
    pub repaired: Repaired,
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    new: TextOrBytes<'a>,
    records: u64,
    bytes: u64,
    damages: Vec<JsonDamage<'a>>,
    complete: bool,
    quarantined: Vec<Quarantined<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct Quarantined<'a> {
    segment_id: u64,
    offset_bytes: u64,
    len_bytes: u64,
    quarantine_file: &'a str,
}

impl Report {
    /// The document that also lies in the quarantine.
    pub fn document(&self) -> Document<impl Serialize + '_> {
        let Repaired { records, bytes, damages, quarantined, notes, is_incomplete } = &self.repaired;
        let quarantined = quarantined.iter().map(|aside| Quarantined {
            segment_id: aside.segment,
            offset_bytes: aside.range.start(),
            len_bytes: aside.range.len(),
            quarantine_file: &aside.file,
        });
        Document::new(
            "check",
            Json {
                new: TextOrBytes::new("new", self.new.as_os_str().as_bytes()),
                records: *records,
                bytes: *bytes,
                damages: JsonDamage::all(damages),
                complete: !is_incomplete,
                quarantined: quarantined.collect(),
                notes,
            },
        )
    }

    /// Bytes in the quarantine.
    pub fn quarantined_bytes(&self) -> u64 {
        self.repaired.quarantined.iter().map(|aside| aside.range.len()).sum()
    }
}

/// Writes all intact live records into a new pack, and the rest into a directory `NEW.quarantine`
/// with a report. `progress` is called with the bytes so far and in total, about twice those of the
/// pack, at last with all; if it returns `false`, the repair ends. A partial repair is useless, and
/// is removed.
///
/// # Errors
/// Returns [`Error::Exists`], [`Error::Interrupted`], [`pack::Error::NotAPack`], or I/O errors.
/// Damage is not an error: the report lists it.
pub fn repair(pack: &Path, new: &Path, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Report> {
    // With a slash at its end it is the same name, and what is to be beside it would be in it.
    let new = new.components().as_path();
    let aside = quarantine_of(new);
    for path in [new, &aside] {
        if path.symlink_metadata().is_ok() {
            return Err(Error::Exists { path: path.to_path_buf() });
        }
    }
    check_path(new)?;
    let from = open_directory(pack)?;
    let total: u64 = from.list()?.iter().map(|file| file.len * 2).sum();
    let from = Arc::new(from);
    check_space(&from, new, total / 2, free_at(new)?)?;
    let to = Arc::new(LocalStorage::create(new, LocalStorageOptions::default())?);
    let (mut quarantine, mut is_stopped) = (None, false);
    let repaired = pack::repair(
        from.as_ref(),
        to,
        WriterOptions::default(),
        &mut || open_quarantine(&aside, &mut quarantine),
        &mut |done| {
            is_stopped = is_stopped || !progress(done, total);
            !is_stopped
        },
    );
    // What was passed and copied is less than twice all files: their heads and indexes are neither.
    is_stopped = is_stopped || (repaired.is_ok() && !progress(total, total));
    let repaired = match repaired {
        Ok(repaired) if !is_stopped => repaired,
        ended => {
            remove(new)?;
            if quarantine.is_some() {
                remove(&aside)?;
            }
            return Err(match ended {
                Err(error) if !is_stopped => error.into(),
                _ => Error::Interrupted,
            });
        }
    };
    let report = Report { new: new.to_path_buf(), quarantine: aside, repaired };
    if let Some(quarantine) = &quarantine {
        let failed = |error: serde_json::Error| {
            crate::Error::io("write", report.quarantine.join(REPORT), error.into())
        };
        let text = serde_json::to_string_pretty(&report.document()).map_err(failed)?;
        quarantine.publish_if_absent(REPORT, text.as_bytes())?;
    }
    Ok(report)
}

/// Refuses where the new pack cannot fit: it has what counts, which may be far less than the files
/// of the old one, and is looked at only where all of those do not fit.
fn check_space(from: &Arc<LocalStorage>, new: &Path, files: u64, free: u64) -> Result<()> {
    if files <= free {
        return Ok(());
    }
    let pack = Pack::open_what_is_left(from.clone(), OpenOptions::default())?;
    let live = |segment: &SegmentInfo| segment.file_bytes.saturating_sub(segment.dead_bytes);
    let needed = pack.segments().iter().map(live).fold(0, u64::saturating_add);
    match needed > free {
        true => Err(Error::NoSpace { needed, free, place: new.to_path_buf() }),
        false => Ok(()),
    }
}

fn remove(directory: &Path) -> Result<()> {
    let failed = |error| crate::Error::io("remove", directory, error);
    Ok(std::fs::remove_dir_all(directory).map_err(failed)?)
}

fn quarantine_of(new: &Path) -> PathBuf {
    let mut name = OsString::from(new.as_os_str());
    name.push(".quarantine");
    PathBuf::from(name)
}

/// The quarantine, made on first use.
fn open_quarantine(
    path: &Path,
    quarantine: &mut Option<Arc<LocalStorage>>,
) -> pack::Result<Arc<dyn Storage>> {
    let made = match quarantine.take() {
        Some(made) => made,
        None => Arc::new(LocalStorage::create(path, LocalStorageOptions::default())?),
    };
    *quarantine = Some(made.clone());
    Ok(made)
}
