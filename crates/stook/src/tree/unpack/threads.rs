//! Threads that write small files.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use super::entries::EntryError;
use super::writer::{Body, Destination, Writer};
use crate::tree::target::share_of_descriptors;

/// Files that a thread is given at once: handing them over one by one costs more than some of them.
const FILES: usize = 16;

/// Bytes that a thread is given at once, unless one file has more.
const BYTES: usize = 256 << 10;

/// How often so much may wait for a thread.
const WAITING: usize = 16;

/// One of so many descriptors of a process is for each of these: every file that waits keeps its
/// directory open.
const SHARE: u64 = 64;

/// A small file on its way to a thread.
pub(super) struct SmallFile {
    pub(super) place: Destination,
    pub(super) body: Vec<u8>,
}

impl SmallFile {
    fn write<E: EntryError>(&self, writer: &Writer<E>) {
        let written = writer.write_file(&self.place, &mut Body::Whole(Some(&self.body)), &mut |_| true);
        writer.note(&self.place.key, written);
    }
}

/// The threads. They end when this is dropped and all is written.
pub(super) struct Threads<'a, E> {
    sender: SyncSender<Vec<SmallFile>>,
    writer: &'a Writer<E>,
    /// What goes to the next that is free.
    files: Vec<SmallFile>,
    files_max: usize,
    bytes: usize,
}

impl<'a, E: EntryError> Threads<'a, E> {
    /// Begins them.
    pub(super) fn begin<'s>(scope: &'s Scope<'s, 'a>, count: usize, writer: &'a Writer<E>) -> Self {
        let (sender, receiver) = mpsc::sync_channel(share_of_descriptors(SHARE, WAITING));
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..count.max(1) {
            let receiver = receiver.clone();
            scope.spawn(move || work(&receiver, writer));
        }
        let files_max = share_of_descriptors(SHARE, FILES);
        Self { sender, writer, files: Vec::new(), files_max, bytes: 0 }
    }

    /// Has a file written.
    pub(super) fn write(&mut self, file: SmallFile) {
        self.bytes = self.bytes.saturating_add(file.body.len());
        self.files.push(file);
        if self.files.len() >= self.files_max || self.bytes >= BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.bytes = 0;
        let files = std::mem::take(&mut self.files);
        if !files.is_empty()
            && let Err(mpsc::SendError(files)) = self.sender.send(files)
        {
            files.iter().for_each(|file| file.write(self.writer));
        }
    }
}

impl<E: EntryError> Threads<'_, E> {
    /// All that it was given is on its way.
    pub(super) fn end(mut self) {
        self.hand_over();
    }
}

fn work<E: EntryError>(receiver: &Mutex<Receiver<Vec<SmallFile>>>, writer: &Writer<E>) {
    loop {
        let files = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(files) = files else { return };
        files.iter().for_each(|file| file.write(writer));
    }
}
