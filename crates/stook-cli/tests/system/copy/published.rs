//! The published faults of the tool that copying was studied with: none is ours. The table of them
//! is in docs/internals/copy.md.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use stook::extent::ByteRange;
use stook_testing::fuse::{Fault, FaultMount, Files, Operation, PageCache, Rule, Which};
use tempfile::TempDir;

use super::super::program::ended;
use super::super::trees::noise;
use super::{assert_same, copied, copy, failed, refused};

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A small file, and a large one.
const LENS: [(&str, usize); 2] = [("small", 20_000), ("large", 1_500_000)];

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("from")).unwrap();
        fs::create_dir(place.at("to")).unwrap();
        for (seed, (name, len)) in (1..).zip(LENS) {
            fs::write(place.at("from").join(name), noise(seed, len)).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The whole place on a file system that fails by rule.
    fn mounted(&self, page_cache: PageCache) -> FaultMount {
        FaultMount::mount(self.0.path(), page_cache).unwrap()
    }
}

/// A copy on a mount that has met the first fault, which holds it up.
fn held_up(mount: &FaultMount) -> Child {
    let mut command = copy(["from", "to"].map(|below| mount.path().join(below)));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while mount.struck() == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended without meeting the fault");
        thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn a_truncated_destination_of_an_interrupted_run_is_named_and_finished_when_that_is_asked() {
    let place = Place::new();
    let (from, to) = (place.at("from"), place.at("to"));
    for (name, len) in LENS {
        let whole = fs::read(from.join(name)).unwrap();
        fs::write(to.join(name), &whole[..len / 2]).unwrap();
    }
    let said = failed([&from, &to]);
    for (name, _) in LENS {
        let kept = format!("{} is there with other content, and was kept", to.join(name).display());
        assert!(said.contains(&kept), "{said}");
    }
    copied([from.as_os_str(), to.as_os_str(), "--overwrite".as_ref(), "different".as_ref()]);
    assert_same(&from, &to);
}

#[test]
fn an_error_in_the_last_write_of_a_file_is_its_failure_and_leaves_no_short_file() {
    for (errno, why) in [(EIO, "Input/output error"), (ENOSPC, "No space left on device")] {
        for (name, len) in LENS {
            let place = Place::new();
            let mount = place.mounted(PageCache::Off);
            mount.add(Rule {
                operations: vec![Operation::Write],
                files: Files::Containing("to/".into()),
                which: Which::Bytes(ByteRange::at(len as u64 - 1, 1).unwrap()),
                fault: Fault::Errno(errno),
            });
            let args = ["from", "to"].map(|below| mount.path().join(below));
            let mut command = copy(args.iter());
            let (code, stdout, stderr) = ended(command.args(["--include", name]));
            assert_eq!(code, 1, "{name}, {why}: {stdout}{stderr}");
            assert!(mount.struck() > 0);
            let line = stderr.lines().find(|line| line.contains(&format!("to/{name}")));
            assert!(line.is_some_and(|line| line.contains(why)), "{stderr}");
            assert!(!place.at("to").join(name).exists(), "{name}, {why}");
            mount.heal();
            copied(&args);
            assert_same(&args[0], &args[1]);
        }
    }
}

#[test]
fn block_sizes_that_mean_nothing_are_refused_and_128k_is_131_072_bytes() {
    let place = Place::new();
    let (from, to) = (place.at("from"), place.at("to"));
    for size in ["0", "abc", "128", "", "-1", "1e6", "0x1000", "999999999999999999999"] {
        let (code, stdout, stderr) = ended(copy([&from, &to]).arg(format!("--block-size={size}")));
        assert_eq!(code, 2, "{size}: {stdout}{stderr}");
        assert!(stderr.contains("--block-size"), "{size}: {stderr}");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0, "{size}");
    }
    // 128 bytes would have been refused.
    for size in ["128k", "128K", "128KiB", "131072"] {
        let to = place.at(size);
        copied([from.as_os_str(), to.as_os_str(), "--block-size".as_ref(), size.as_ref()]);
        assert_same(&from, &to);
    }
}

/// The rename waits while another program puts a file there.
#[test]
fn never_does_not_replace_what_another_program_puts_there_meanwhile() {
    let place = Place::new();
    let mount = place.mounted(PageCache::On);
    mount.add(Rule {
        operations: vec![Operation::Rename],
        files: Files::Containing("to/small".into()),
        which: Which::All,
        fault: Fault::Delay(Duration::from_millis(1_500)),
    });
    let child = held_up(&mount);
    // Below the mount, which is busy.
    fs::write(place.at("to/small"), "theirs").unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("to/small is there with other content, and was kept"), "{said}");
    assert_eq!(fs::read(place.at("to/small")).unwrap(), b"theirs");
    assert!(fs::read(place.at("to/large")).unwrap() == fs::read(place.at("from/large")).unwrap());
}

#[test]
fn links_in_a_destination_are_never_followed() {
    let place = Place::new();
    let (from, to, outside) = (place.at("from"), place.at("to"), place.at("outside"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir(from.join("directory")).unwrap();
    fs::write(from.join("directory/file"), "x").unwrap();
    fs::write(outside.join("victim"), "theirs").unwrap();
    symlink("../outside/made", to.join("small")).unwrap();
    symlink("../outside/victim", to.join("large")).unwrap();
    symlink("../outside", to.join("directory")).unwrap();
    let said = failed([&from, &to]);
    for name in ["small", "large", "directory"] {
        assert!(said.contains(to.join(name).to_str().unwrap()), "{name}: {said}");
    }
    assert!(said.contains("is a symbolic link, and links are not followed"), "{said}");
    // What may be replaced is the link, and not what it leads to; a directory stays one.
    let said = failed([from.as_os_str(), to.as_os_str(), "--overwrite".as_ref(), "always".as_ref()]);
    assert!(said.contains("is a symbolic link, and links are not followed"), "{said}");
    assert!(fs::read(to.join("large")).unwrap() == fs::read(from.join("large")).unwrap());
    assert!(!to.join("large").is_symlink() && !to.join("small").is_symlink());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"theirs");
}

#[test]
fn links_of_a_source_are_copied_as_links_even_where_they_lead_in_circles() {
    let place = Place::new();
    let (from, to) = (place.at("from"), place.at("to"));
    fs::create_dir_all(from.join("a/b")).unwrap();
    for (target, name) in
        [("..", "a/up"), ("../..", "a/b/top"), (".", "here"), ("loop", "loop"), ("/", "root")]
    {
        symlink(target, from.join(name)).unwrap();
    }
    copied([&from, &to]);
    assert_same(&from, &to);
}

#[test]
fn a_destination_inside_of_its_source_is_refused_however_it_is_written() {
    let place = Place::new();
    let from = place.at("from");
    symlink("from", place.at("link")).unwrap();
    for inside in ["from", "from/new", "from/new/er", "link/new", "to/../from/new", "./from/../from"] {
        let said = refused([&from, &place.at(inside)]);
        assert!(said.contains("the copy would never end"), "{inside}: {said}");
        assert_eq!(fs::read_dir(&from).unwrap().count(), 2, "{inside}");
    }
    let said = refused([from.join("small"), from.clone()]);
    assert!(said.contains("are the same file"), "{said}");
    assert_eq!(fs::metadata(from.join("small")).unwrap().len(), 20_000);
}

#[test]
fn pipes_are_not_waited_for_and_what_cannot_be_read_is_named() {
    let place = Place::new();
    mknodat(CWD, place.at("from/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::create_dir(place.at("from/directory")).unwrap();
    fs::write(place.at("from/directory/file"), "x").unwrap();
    let mount = place.mounted(PageCache::Off);
    for (operation, name) in [(Operation::Read, "from/large"), (Operation::List, "from/directory")] {
        mount.add(Rule {
            operations: vec![operation],
            files: Files::At(name.into()),
            which: Which::All,
            fault: Fault::Errno(EIO),
        });
    }
    let said = failed(["from", "to"].map(|below| mount.path().join(below)));
    assert!(said.contains("pipe is a named pipe, and was not copied"), "{said}");
    for name in ["from/large", "from/directory"] {
        let line = said.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains("Input/output error")), "{name}: {said}");
    }
    // Several blocks are asked for at once, and any may fail first.
    assert!(said.lines().any(|line| line.contains("from/large at offset ")), "{said}");
    assert!(!place.at("to/large").exists());
    assert_eq!(fs::metadata(place.at("to/small")).unwrap().size(), 20_000);
}

#[test]
fn the_first_error_ends_only_its_file_and_names_its_path() {
    let place = Place::new();
    for number in 0..40 {
        fs::write(place.at(&format!("from/{number:02}")), number.to_string()).unwrap();
    }
    let mount = place.mounted(PageCache::On);
    for bad in ["from/00", "from/17", "from/large"] {
        mount.add(Rule {
            operations: vec![Operation::Open],
            files: Files::At(bad.into()),
            which: Which::All,
            fault: Fault::Errno(EIO),
        });
    }
    let said = failed(["from", "to"].map(|below| mount.path().join(below)));
    let named: Vec<&str> = said.lines().filter(|line| line.contains("Input/output error")).collect();
    assert_eq!(named.len(), 3, "{said}");
    for bad in ["from/00", "from/17", "from/large"] {
        assert!(named.iter().any(|line| line.contains(bad)), "{bad}: {said}");
    }
    assert_eq!(fs::read_dir(place.at("to")).unwrap().count(), 42 - 3);
}

#[test]
fn reads_and_writes_that_a_signal_interrupted_are_made_again() {
    for operation in [Operation::Read, Operation::Write] {
        // Two files are read, and two written.
        for nth in 0..2 {
            let place = Place::new();
            let mount = place.mounted(PageCache::Off);
            mount.add(Rule::new(operation, Which::Nth(nth), Fault::Errno(EINTR)));
            copied(["from", "to"].map(|below| mount.path().join(below)));
            assert_eq!(mount.struck(), 1, "{operation:?} {nth}");
            mount.unmount().unwrap();
            assert_same(&place.at("from"), &place.at("to"));
        }
    }
}

/// A copy of what a file was before and after would be neither.
#[test]
fn a_source_that_changes_while_it_is_read_is_copied_as_it_is_then() {
    for (name, len) in LENS {
        let place = Place::new();
        let mount = place.mounted(PageCache::Off);
        mount.add(Rule {
            operations: vec![Operation::Read],
            files: Files::At(Path::new("from").join(name)),
            which: Which::Nth(0),
            fault: Fault::Delay(Duration::from_millis(700)),
        });
        let child = held_up(&mount);
        let longer = noise(99, len + 100);
        fs::write(place.at("from").join(name), &longer).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), said.as_str()), (Some(0), ""), "{name}");
        assert!(fs::read(place.at("to").join(name)).unwrap() == longer, "{name}");
        mount.unmount().unwrap();
    }
}
