//! Sources that are in use: a name may stand for another file when it is read, or linked, than when
//! it was listed. What has the name then is copied, and never what only has the inode.

use std::io;
use std::sync::Arc;

use super::body::FileJob;
use super::finish::shown;
use super::listing::Found;
use super::making::{is_short_of_descriptors, with_descriptors};
use super::run::{Run, job_of};
use crate::error::{Error, Result};
use crate::source::Source;
use crate::tree::{Kind, Node, NodeId, Xattrs};

/// An opened file, and what it was then.
pub(super) struct Opened {
    pub(super) source: Arc<dyn Source>,
    /// Its id: another than that of the job where another file has the name by now.
    pub(super) id: NodeId,
    pub(super) xattrs: Xattrs,
    pub(super) node: Node,
}

impl Run<'_> {
    /// Opens a file. Its mode and time are those of what is opened. Where another has its name by
    /// now, as one has that was saved by giving a new file the name of the old, that is opened.
    pub(super) fn open(&self, job: &FileJob) -> Result<Opened> {
        let Some(from) = self.sources.get(job.source) else {
            return Err(Error::io("open", shown(&job.key), io::ErrorKind::NotFound.into()));
        };
        let open = |id| {
            let open = || match self.options.xattrs {
                true => from.tree.open_with_xattrs(id),
                false => from.tree.open(id).map(|source| (source, Xattrs::default())),
            };
            with_descriptors(open, is_short_of_descriptors, || self.release_descriptors())
        };
        let (id, (source, xattrs)) = match open(job.id) {
            Ok(opened) => (job.id, opened),
            Err(error) => match from.find_again(job.parent, &job.key) {
                Ok(Some(now)) if now != job.id => (now, open(now)?),
                _ => return Err(error),
            },
        };
        self.note_opened();
        let identity = source.identity();
        let is_known = id == job.id
            && identity.len == job.node.len
            && (identity.mtime_ns == 0 || job.node.mtime_ns == Some(identity.mtime_ns));
        let node = if is_known { job.node } else { from.tree.node(id)? };
        let node = Node { len: source.len(), ..node };
        Ok(Opened { source, id, xattrs, node })
    }

    /// A file as it is now, after it has changed: a destination that has it as it was does not have
    /// the same.
    pub(super) fn as_it_is_now(&self, job: &FileJob) -> FileJob {
        let found = self.sources.get(job.source).and_then(|from| {
            let id = from.find_again(job.parent, &job.key).ok()??;
            Some((id, from.tree.node(id).ok().filter(|node| node.kind == Kind::File)?))
        });
        // What cannot be looked at fails when it is opened.
        found.map_or_else(|| job.clone(), |(id, node)| FileJob { id, node, ..job.clone() })
    }

    /// Those among hard links that still are: what has another file by now is copied by
    /// itself, because the first name may have been copied since it was so.
    pub(super) fn still_linked(&self, links: Vec<(Found, Arc<[u8]>)>) -> Vec<(Found, Arc<[u8]>)> {
        let (mut still, mut others) = (Vec::with_capacity(links.len()), Vec::new());
        for (found, first) in links.into_iter().take_while(|_| !self.is_stopped()) {
            match self.look_again(&found) {
                Ok(None) => still.push((found, first)),
                Ok(Some(now)) => others.push(FileJob { is_alone: true, ..job_of(&now) }),
                Err(error) => self.fail(&found.key, error),
            }
        }
        self.copy_jobs(others);
        still
    }

    /// What has the name of something by now, if that is another.
    fn look_again(&self, found: &Found) -> Result<Option<Found>> {
        let from = self.sources.get(found.source).filter(|_| found.node.kind == Kind::File);
        let Some(from) = from else { return Ok(None) };
        match from.find_again(found.parent, &found.key)? {
            Some(id) if id == found.id => Ok(None),
            Some(id) => Ok(Some(Found { id, node: from.tree.node(id)?, ..found.clone() })),
            None => Err(Error::io("find", from.tree.path_of(found.id), io::ErrorKind::NotFound.into())),
        }
    }
}
