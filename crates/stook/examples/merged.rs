//! What a merged copy is worth: a tar of 512 files of 16 KiB, read from them and from its copy,
//! with nothing of it in memory. As root names and inodes are dropped, too.
//!
//! `cargo run --release --example merged -- DIR [ROUNDS]`

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stook::stitch::{Layout as _, Members, MergeRule, MergedCache, MergedCacheOptions, Tar, VirtualFile};
use stook::walk::DirectoryTree;

const FILES: usize = 512;
const FILE_BYTES: usize = 16 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("merged DIR [ROUNDS]")?;
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let place = tempfile::tempdir_in(directory)?;
    let (tree, cache) = (place.path().join("tree"), place.path().join("cache"));
    make(&tree)?;
    for round in 0..rounds {
        for rule in [MergeRule::Never, MergeRule::Always] {
            let options = MergedCacheOptions { rule, ..MergedCacheOptions::default() };
            let cache = MergedCache::open(&cache, options)?;
            forget(place.path())?;
            let laid = tar(&tree)?;
            let begun = Instant::now();
            let file = cache.merged(&laid, &mut |_| true)?;
            let opened = begun.elapsed();
            let bytes = match file.copy() {
                Some(copy) => fs::read(stook::source::Source::path(copy))?.len(),
                None => read_through(&laid)?,
            };
            let way = match (file.is_merged(), cache.statistics().built) {
                (false, _) => "stitched",
                (true, 0) => "merged",
                (true, _) => "made",
            };
            println!("{round} {way:8} opened {opened:8.1?} read {:8.1?} {bytes} bytes", begun.elapsed());
        }
    }
    Ok(())
}

fn make(tree: &Path) -> Result<(), Box<dyn Error>> {
    for number in 0..FILES {
        let folder = tree.join(format!("{:02}", number % 32));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{number:04}")), vec![number as u8; FILE_BYTES])?;
    }
    // Until no later change would leave its times as they are.
    std::thread::sleep(std::time::Duration::from_millis(50));
    Ok(())
}

fn tar(tree: &Path) -> Result<VirtualFile, Box<dyn Error>> {
    let mut members = Members::new();
    members.add_tree(Arc::new(DirectoryTree::open(tree)?), true, b"", &mut |_| true)?;
    Ok(Tar::default().lay_out("tree.tar".into(), members)?.file)
}

fn read_through(file: &VirtualFile) -> Result<usize, Box<dyn Error>> {
    let mut all = 0;
    file.read_through(&mut |bytes| {
        all += bytes.len();
        Ok(true)
    })?;
    Ok(all)
}

/// Takes all files below a directory out of memory.
fn forget(directory: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            let file = File::open(&path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    if rustix::process::geteuid().is_root() {
        fs::write("/proc/sys/vm/drop_caches", "2")?;
    }
    Ok(())
}
