//! `stook ls` of an archive.

use std::process::ExitCode;

use stook::archive::Archive;
use stook::report::json::Document;

use crate::commands::ls::{Args, Line, fields, long_line, typed};
use crate::context::Context;
use crate::keys::{self, Globs, Order};
use crate::output::Output;
use crate::{archives, interrupt, packs};

/// Lists members in the order of keys.
///
/// # Errors
/// When stdout cannot be written, or the arguments make no sense.
pub(in crate::commands) fn run(
    args: &Args,
    archive: &Archive,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    archives::without(archive, "--group", !args.groups.is_empty())?;
    let globs = Globs::new(&args.globs)?;
    archives::without(archive, "--order disk", args.order == Order::Disk)?;
    let prefix = keys::bytes_prefix(args.keys.prefix.as_deref())?;
    let range = args.keys.range()?;
    let mut output = context.output();
    for member in prefix.iter().flat_map(|prefix| archive.members(prefix)) {
        interrupt::check()?;
        let head = archives::head(&member)?;
        if range.contains(&head.key) && globs.match_key(&head.key) {
            print(args, &head, member.stored_len, context, &mut output)?;
        }
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn print(
    args: &Args,
    head: &stook::pack::RecordHead,
    stored_bytes: u64,
    context: &Context,
    output: &mut Output,
) -> anyhow::Result<()> {
    if context.json() {
        let key = packs::JsonKey(&head.key);
        let head = args.long.then(|| fields(head));
        let line = Line { key, group: "", stored_bytes: Some(stored_bytes), head };
        output.json_line(&Document::new("ls", line))?;
    } else if args.null {
        output.bytes(&typed(&head.key))?;
        output.bytes(b"\0")?;
    } else if args.long {
        output.line(long_line(head, ""))?;
    } else {
        output.line(&head.key)?;
    }
    Ok(())
}
