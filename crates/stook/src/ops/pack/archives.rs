//! Members of archives, or of a tar that comes through a stream, into a pack.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::completing::{Packed, RunEnd};
use super::hooks::{Reporting, Stage};
use super::opening::Input;
use super::{Error, PackReport, PackSources, Result};
use crate::archive::{self, Archive, TarStream, tar_stream};
use crate::ops::contents::{self, Place, open_file, place_of};
use crate::ops::copy::{self, Given, OpenGiven};
use crate::ops::given::is_in_archive;
use crate::ops::import::{Import, Imported, STREAM, Source};
use crate::pack::check_group;
use crate::pack::tree::{Delete, Grouping};
use crate::source;

impl PackSources<'_> {
    pub(super) fn pack_archives(&self, reporting: &mut Reporting<'_>) -> Result<PackReport> {
        if self.delete != Delete::Nothing || self.move_originals {
            return Err(Error::TreesOnly);
        }
        let group = match &self.grouping {
            Grouping::Default => "",
            Grouping::Named(group) => group,
            Grouping::Top | Grouping::Hash(_) => return Err(Error::OneGroup),
        };
        check_group(group)?;
        let sources = self.open_sources(reporting)?;
        let mut opened = self.open(Input::Archives(&sources), reporting)?;
        let choice = reporting.choice;
        let shared = RefCell::new(&mut *reporting);
        let import = Import {
            group,
            with_owner: self.with_owner,
            xattrs: self.xattrs,
            checksum: self.checksum,
            keeps_moved: self.keeps_moved(opened.before.as_ref()),
            attributes: self.attributes_noted(choice),
            takes: Box::new(|key, kind| choice.takes_below(key, kind)),
            progress: Box::new(|members, bytes| shared.borrow_mut().goes_on(Stage::Packing, members, bytes)),
        };
        let imported = import.run(sources, opened.writer.as_mut(), opened.before.as_ref());
        drop(import);
        reporting.finish(Stage::Packing);
        let done = imported.as_ref().ok();
        let done = done.map(|done| Packed { summary: &done.summary, has_all: done.has_all });
        let is_clean = done.is_some_and(|done| RunEnd::of(done.summary) == RunEnd::Done);
        let nothing = choice.nothing().filter(|_| is_clean && choice.is_selective());
        let complete = self.close(opened, done, nothing, reporting)?;
        let Imported { summary, left_out, .. } = imported.map_err(|error| match error {
            Error::Pack(source) => Error::Stopped { pack: self.pack.clone(), source },
            error => error,
        })?;
        if self.dry_run && !summary.interrupted {
            self.check_counted(&summary)?;
        }
        Ok(PackReport { summary, left_out, moved: None, complete, nothing })
    }

    /// Opens the archives and the stream: invalid ones are reported before anything is made.
    fn open_sources(&self, reporting: &mut Reporting<'_>) -> Result<Vec<Source<'_>>> {
        let is_stream = |source: &PathBuf| source == Path::new(STREAM);
        let mut first = match self.sources.iter().any(is_stream) {
            true => Some(self.open_stream(reporting)?),
            false => None,
        };
        let mut archives = VecDeque::new();
        for source in self.sources.iter().filter(|source| !is_stream(source)) {
            archives.push_back(open_archive(source, reporting)?);
        }
        let mut sources = Vec::new();
        for source in &self.sources {
            if is_stream(source) {
                let opened = first.take();
                sources.push(Source::Stream(Box::new(move || opened.map_or_else(|| self.tar(), Ok))));
            } else {
                sources.extend(archives.pop_front().map(|archive| Source::Archive(Box::new(archive))));
            }
        }
        Ok(sources)
    }

    /// The tar that comes through the stream, once its first header is there.
    fn open_stream(&self, reporting: &mut Reporting<'_>) -> Result<TarStream> {
        if self.stream.is_none() {
            return Err(Error::NoStream);
        }
        // Waiting for what comes first ends when the caller wants that.
        self.tar().map_err(|error| match reporting.goes_on(Stage::Packing, 0, 0) {
            true => error.into(),
            false => Error::Interrupted,
        })
    }

    fn tar(&self) -> archive::Result<TarStream> {
        let Some(open) = &self.stream else {
            return Err(archive::Error::Invalid(Error::NoStream.to_string()));
        };
        tar_stream(open()?, "stdin")
    }
}

/// Opens an archive that was a file a moment ago, or has an address.
fn open_archive(path: &Path, reporting: &mut Reporting<'_>) -> Result<Archive> {
    let place = place_of(path.to_path_buf()).map_err(archive::Error::Core)?;
    if matches!(&place, Place::Path(path) if is_in_archive(path)) {
        return open_given(path, reporting);
    }
    let object = match &place {
        Place::Object(address) => Some(source::open(address).map_err(archive::Error::Core)?),
        Place::Path(_) => None,
    };
    let len = match (&object, &place) {
        (Some(object), _) => object.len(),
        (None, Place::Path(path) | Place::Object(path)) => match std::fs::metadata(path) {
            Ok(found) if !found.is_dir() => found.len(),
            _ => return Err(Error::NotAFile(path.clone())),
        },
    };
    let stage = Stage::Indexing { len };
    let (options, mut progress) = (archive::OpenOptions { partial: true, ..Default::default() }, |bytes| {
        reporting.goes_on(stage, 0, bytes)
    });
    let opened = match (object, &place) {
        (Some(object), _) => Archive::from_source_with(object, options, &mut progress).map_err(Into::into),
        (None, Place::Path(path) | Place::Object(path)) => open_file(path, options, &mut progress),
    };
    reporting.finish(stage);
    if reporting.is_abandoned() {
        return Err(Error::Abandoned);
    }
    let archive = match opened {
        Ok(archive) => archive,
        Err(contents::Error::Interrupted) => return Err(Error::Interrupted),
        Err(contents::Error::Archive(error)) => return Err(error.into()),
        Err(error) => return Err(Error::Open(error)),
    };
    reporting.hooks.archive_opened(&archive);
    Ok(archive)
}

/// Opens an archive that has two slashes after it, or is in another or in a layout: as whatever
/// copies and verifies opens it.
fn open_given(path: &Path, reporting: &mut Reporting<'_>) -> Result<Archive> {
    let (stage, mut whole) = (Stage::Indexing { len: 0 }, path.as_os_str().to_os_string());
    // A file of a layout is meant as the archive that it is.
    if contents::file_of_layout(path).is_some() {
        whole.push("//");
    }
    let opened =
        OpenGiven::default().open(Path::new(&whole), &mut |bytes| reporting.goes_on(stage, 0, bytes));
    reporting.finish(stage);
    if reporting.is_abandoned() {
        return Err(Error::Abandoned);
    }
    let archive = match opened {
        Ok(Given::Packed(packed)) => packed.into_whole_archive(),
        Ok(Given::Files(_)) => None,
        Err(copy::Error::Open(contents::Error::Interrupted)) => return Err(Error::Interrupted),
        Err(error) => return Err(Error::Given(error)),
    };
    let archive = archive.ok_or_else(|| Error::PartOfArchive(path.to_path_buf()))?;
    reporting.hooks.archive_opened(&archive);
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::choice::Choice;

    #[test]
    fn what_stops_being_a_file_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let (packing, mut hooks) = (PackSources::new(Vec::new(), "p.stook".into()), ());
        let choice = Choice::new(&packing.patterns, packing.exclude.as_ref(), packing.select.as_ref());
        let mut reporting = Reporting::new(&mut hooks, &choice);
        for gone in [directory.path().to_path_buf(), directory.path().join("gone.tar")] {
            let error = open_archive(&gone, &mut reporting).unwrap_err().to_string();
            assert!(error.contains(gone.to_str().unwrap()), "{error}");
        }
    }
}
