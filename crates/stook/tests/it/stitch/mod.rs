//! Virtual files against flat bytes, archives of trees against what everybody's tools make of them,
//! and every way in which a source can stop to be what it was.

mod archives;
mod described;
mod faults;
mod layouts;
mod merged;
mod model;
mod patch;
mod routes;
mod shards;
mod sources;

use std::path::Path;
use std::sync::Arc;

use stook::stitch::{Laid, Layout as _, Members, Tar, VirtualFile, Zip};
use stook::walk::DirectoryTree;

/// The members of a directory.
fn members(path: &Path) -> Members {
    let mut members = Members::new();
    members.add_tree(Arc::new(DirectoryTree::open(path).unwrap()), true, b"", &mut |_| true).unwrap();
    members
}

fn tar_of(path: &Path) -> Laid {
    Tar::default().lay_out("x.tar".into(), members(path)).unwrap()
}

fn zip_of(path: &Path) -> Laid {
    Zip::default().lay_out("x.zip".into(), members(path)).unwrap()
}

/// All bytes, from the front to the end.
fn read_through(file: &VirtualFile) -> Result<Vec<u8>, stook::stitch::Error> {
    let mut all = Vec::new();
    file.read_through(&mut |bytes| {
        all.extend_from_slice(bytes);
        Ok(true)
    })?;
    Ok(all)
}
