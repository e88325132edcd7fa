//! Whether every batch in the frames of a segment matches its end frame.

use crate::pack::format::batch::BatchSum;
use crate::pack::format::frame::FrameKind;
use crate::pack::read::frames::Frames;

/// Watches a walk over frames.
#[derive(Debug, Default)]
pub(crate) struct BatchWatch {
    /// Where the first frame of the open batch is, and its members.
    open: Option<(u64, BatchSum)>,
    /// Something could not be read since the last batch ended: the missing part of the open one may
    /// be there.
    is_hurt: bool,
}

impl BatchWatch {
    /// Takes a frame of the walk. Returns the place of an invalid batch, and why.
    pub(crate) fn take(&mut self, frames: &Frames) -> Option<(u64, String)> {
        let head = frames.head();
        if head.header.in_batch {
            let (_, sum) = self.open.get_or_insert_with(|| (head.offset, BatchSum::default()));
            sum.add(head.header.sequence, frames.digest());
            return None;
        }
        match head.header.kind {
            FrameKind::SyncMark | FrameKind::Filler => None,
            FrameKind::Record | FrameKind::Deletion => self.end(),
            FrameKind::BatchEnd => {
                let (open, is_hurt) = (self.open.take(), std::mem::take(&mut self.is_hurt));
                let (offset, sum) = open.unwrap_or((head.offset, BatchSum::default()));
                let what = sum.verify(&head.attributes).err().filter(|_| !is_hurt)?;
                Some((offset, what))
            }
        }
    }

    /// Notes that the current frame cannot be read.
    pub(crate) fn note_damage(&mut self) {
        self.is_hurt = true;
    }

    /// The frames end here, or something that is in no batch comes next.
    pub(crate) fn end(&mut self) -> Option<(u64, String)> {
        let (open, is_hurt) = (self.open.take(), std::mem::take(&mut self.is_hurt));
        open.filter(|_| !is_hurt).map(|(offset, _)| (offset, "a batch has no end".into()))
    }
}
