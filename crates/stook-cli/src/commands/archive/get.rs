//! `stook get` from an archive.

use std::path::Path;
use std::process::ExitCode;

use stook::archive::{Archive, Error, Member, Piece, Reading};
use stook::pack::{FileKind, Key, KeyValue};
use stook::report::json::Document;

use crate::commands::get::{Args, Line, Target, Totals, files, finish};
use crate::context::Context;
use crate::keys::KeyList;
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::{archives, exit, interrupt, packs};

/// Keys looked up in one batch.
const BATCH_KEYS: usize = 4096;

/// Gets members by key.
///
/// # Errors
/// When the archive cannot be read, or a file or stdout cannot be written.
pub(in crate::commands) fn run(
    args: &Args,
    archive: &Archive,
    mut keys: KeyList,
    target: Target,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    archives::without(archive, "--group", !args.groups.is_empty())?;
    archives::note_if_sequential(archive, context);
    let output = context.output();
    let totals = Totals::default();
    let wants_body = !args.concat && target.is_one();
    let mut getter = Getter { archive, context, target, output, totals, wants_body };
    let bar = context.progress("getting", Unit::Bytes, None);
    // In the order of the archive one pass is enough for all, where nothing else was asked for.
    let any_order = archive.is_sequential() && getter.target.is_directory();
    let most = if any_order { usize::MAX } else { BATCH_KEYS };
    while let Some(batch) = keys.next(most)? {
        getter.batch(&batch, any_order, &bar)?;
    }
    drop(bar);
    getter.totals.report_if_none(context);
    let Getter { target, output, totals, .. } = getter;
    finish(target, output, &totals, context)
}

struct Getter<'a> {
    archive: &'a Archive,
    context: &'a Context,
    target: Target,
    output: Output,
    totals: Totals,
    /// Whether a directory, which has no body, is of no use.
    wants_body: bool,
}

impl Getter<'_> {
    fn batch(&mut self, keys: &[Key], any_order: bool, bar: &Progress) -> anyhow::Result<()> {
        let mut found: Vec<(&Key, Option<Member<'_>>)> = Vec::with_capacity(keys.len());
        for key in keys {
            let member = match key.value() {
                KeyValue::Bytes(bytes) => self.archive.find(bytes),
                KeyValue::Id(_) => None,
            };
            found.push((key, member));
        }
        if any_order {
            found.sort_by_key(|(_, member)| member.map(|member| member.data_at));
        }
        let numbers = found.iter().filter_map(|(_, member)| member.map(|member| member.number)).collect();
        let mut reading = self.archive.read(numbers)?;
        for (key, member) in &found {
            interrupt::check()?;
            if member.is_none() {
                self.missing(key)?;
            } else if let Some(member) = reading.next()? {
                self.write(key, &member, &mut reading)?;
            }
            bar.add(self.totals.bytes.saturating_sub(bar.done()));
        }
        while reading.verify()? {
            interrupt::check()?;
        }
        drop(reading);
        // What was read of a file that was being written might be neither the old nor the new.
        Ok(self.archive.check_unchanged()?)
    }

    fn missing(&mut self, key: &Key) -> anyhow::Result<()> {
        self.totals.failures += 1;
        let text = format!("{} has no member {key}", self.archive.path().display());
        self.context.failure(anyhow::anyhow!("{text}").as_ref());
        self.line(key, "missing", None, None, Some(text))
    }

    fn write(&mut self, key: &Key, member: &Member<'_>, reading: &mut Reading<'_>) -> anyhow::Result<()> {
        let kind = archives::kind(member);
        if self.wants_body && kind == Some(FileKind::Directory) {
            return self.refused(key, &files::is_directory(self.archive.path(), key));
        }
        let mut place = match self.target.place(key, kind, &mut self.output) {
            Ok(place) => place,
            Err(refused) if refused.is::<files::Refused>() => {
                return self.refused(key, &refused);
            }
            Err(error) => return Err(error),
        };
        let mut len = 0;
        let damage = loop {
            interrupt::check()?;
            match reading.piece() {
                Ok(Some(Piece::Bytes(part))) => {
                    place.write(part)?;
                    len += part.len() as u64;
                }
                Ok(Some(Piece::Hole(hole))) => {
                    let mut left = hole;
                    while left > 0 {
                        interrupt::check()?;
                        left = left.saturating_sub(place.write_hole(left)?);
                    }
                    len += hole;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = damage {
            drop(place);
            return self.failed(key, error);
        }
        let path = place.finish()?;
        self.totals.got += 1;
        self.totals.bytes += len;
        self.line(key, "ok", Some(len), path.as_deref(), None)
    }

    fn refused(&mut self, key: &Key, why: &anyhow::Error) -> anyhow::Result<()> {
        self.totals.failures += 1;
        self.context.failure(why.as_ref());
        self.line(key, "refused", None, None, Some(why.to_string()))
    }

    fn failed(&mut self, key: &Key, error: Error) -> anyhow::Result<()> {
        let status = match error {
            Error::Damaged { .. } => "damaged",
            Error::Invalid(_) | Error::Unsupported { .. } => "refused",
            _ => return Err(error.into()),
        };
        self.totals.failures += 1;
        self.context.failure(&error);
        self.line(key, status, None, None, Some(exit::chain(&error)))
    }

    fn line(
        &mut self,
        key: &Key,
        status: &'static str,
        body_bytes: Option<u64>,
        path: Option<&Path>,
        error: Option<String>,
    ) -> anyhow::Result<()> {
        if self.context.json() {
            let path = path.map(|path| packs::json_path("path", path));
            let line = Line { key: packs::JsonKey(key), status, body_bytes, path, error };
            self.output.json_line(&Document::new("get", line))?;
        }
        Ok(())
    }
}
