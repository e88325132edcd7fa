//! `stook ls` of an archive.

use std::process::ExitCode;

use stook::archive::{Archive, Member};
use stook::report::json::{Document, TextOrBytes};

use crate::commands::ls::{Args, Line, fields, long_line};
use crate::context::Context;
use crate::keys::{self, Globs, Order};
use crate::output::Output;
use crate::{archives, exit, interrupt, packs};

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
    let globs = Globs::new("GLOB", &args.globs)?;
    archives::without(archive, "--order disk", args.order == Order::Disk)?;
    let prefix = keys::bytes_prefix(args.keys.prefix.as_deref())?;
    let range = args.keys.range()?;
    let (mut listed, mut output) = (0_u64, context.output());
    for member in prefix.iter().flat_map(|prefix| archive.members(prefix)) {
        interrupt::check()?;
        let head = archives::head(&member)?;
        if range.contains(&head.key) && globs.match_key(&head.key, head.attributes.file_kind()) {
            listed += 1;
            print(args, &head, &member, context, &mut output)?;
        }
    }
    output.finish()?;
    let missing = match listed {
        0 => args.asked().report_nothing(archive.path(), "member", context),
        _ => 0,
    };
    Ok(exit::code_for(missing))
}

fn print(
    args: &Args,
    head: &stook::pack::RecordHead,
    member: &Member<'_>,
    context: &Context,
    output: &mut Output,
) -> anyhow::Result<()> {
    let link = (args.long && !member.link.is_empty()).then_some(member.link);
    if context.json() {
        let key = packs::JsonKey(&head.key);
        let head = args.long.then(|| fields(head));
        let line = Line {
            key,
            group: "",
            stored_bytes: Some(member.stored_len),
            head,
            link: link.map(|link| TextOrBytes::new("link", link)),
        };
        output.json_line(&Document::new("ls", line))?;
    } else if args.null {
        output.bytes(&head.key.to_plain())?;
        output.bytes(b"\0")?;
    } else if args.long {
        output.line(long_line(head, "", link))?;
    } else {
        output.line(&head.key)?;
    }
    Ok(())
}
