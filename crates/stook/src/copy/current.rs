//! [`Current`]: which file is shown while files are copied.

use std::sync::Arc;

use super::body::FileJob;
use super::small::SMALL_MAX;

/// The files that are being copied. A large one is shown as long as it takes; a small one that is
/// begun meanwhile is over before its name is read.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// In the order in which they were begun.
    large: Vec<Arc<[u8]>>,
    /// What was begun last.
    last: Arc<[u8]>,
}

impl Current {
    pub(super) fn begin(&mut self, job: &FileJob) {
        if job.node.len > SMALL_MAX {
            self.large.push(job.key.clone());
        }
        self.last = job.key.clone();
    }

    pub(super) fn end(&mut self, job: &FileJob) {
        if let Some(at) = self.large.iter().position(|key| *key == job.key) {
            self.large.remove(at);
        }
    }

    /// The path of the file that is shown, relative to the destination.
    pub(super) fn shown(&self) -> Vec<u8> {
        self.large.first().unwrap_or(&self.last).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Node, NodeId};

    fn job(key: &str, len: u64) -> FileJob {
        let (id, node, key) = (NodeId::new(0), Node::file(len), key.as_bytes().into());
        FileJob { source: 0, id, parent: None, node, key, only: None, is_alone: false }
    }

    #[test]
    fn the_large_file_that_was_begun_first_is_shown_before_any_small_one() {
        let mut current = Current::default();
        assert_eq!(current.shown(), b"");
        let [note, take, more] = [job("note", 7), job("take", SMALL_MAX + 1), job("more", 1 << 40)];
        current.begin(&note);
        assert_eq!(current.shown(), b"note");
        current.begin(&take);
        current.begin(&more);
        current.begin(&note);
        assert_eq!(current.shown(), b"take");
        current.end(&note);
        current.end(&take);
        assert_eq!(current.shown(), b"more");
        current.end(&more);
        assert_eq!(current.shown(), b"note");
    }
}
