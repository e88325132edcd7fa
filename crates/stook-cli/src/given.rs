//! Trees that commands are given: directories, files, packs, archives, objects.

use std::path::Path;

use stook::ops::contents::is_object;
use stook::ops::copy::{Error, Given, OpenGiven};

use crate::context::Context;
use crate::fetch::FetchArgs;
use crate::interrupt::{interrupted, wait_for};
use crate::progress::Unit;

/// Opens what a path or an address is. Damage of a pack is noted from then on.
///
/// # Errors
/// Returns what `error_of` makes of the errors of opening, and that it was interrupted.
pub(crate) fn open(
    path: &Path,
    open: &OpenGiven,
    fetch: &FetchArgs,
    error_of: fn(Error) -> anyhow::Error,
    context: &Context,
) -> anyhow::Result<Given> {
    let given = match is_object(path) {
        false => {
            let bar = context.progress("indexing", Unit::Bytes, None);
            open.open(path, &mut |bytes| bar.go_on(bytes, None)).map_err(error_of)?
        }
        true => {
            let (path, fetch, mut open) = (path.to_path_buf(), fetch.clone(), open.clone());
            wait_for(move || -> anyhow::Result<Given> {
                fetch.set(&mut open.contents)?;
                open.open(&path, &mut |_| !interrupted()).map_err(error_of)
            })??
        }
    };
    if let Some(pack) = given.opened().and_then(|opened| opened.pack()) {
        context.watch(pack.damage_log());
    }
    Ok(given)
}
