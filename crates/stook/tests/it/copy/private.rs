//! What others may not use in the source is theirs in the destination at no moment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use stook::copy::{Copy, CopyEvents, CopyOptions, CopySource, Destination, Item};

/// Looks at the mode of a directory whenever something is reported.
struct Watching {
    directory: PathBuf,
    modes: Vec<u32>,
}

impl CopyEvents for Watching {
    fn item(&mut self, _: &Item) {
        if let Ok(there) = fs::metadata(&self.directory) {
            self.modes.push(there.permissions().mode() & 0o777);
        }
    }
}

#[test]
fn private_directories_are_private_while_they_are_filled() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir_all(from.join("secret/deep")).unwrap();
    // More than a batch, so that files have their names before the directory is finished.
    for number in 0..700 {
        fs::write(from.join(format!("secret/{number}")), "x").unwrap();
    }
    for (name, mode) in [("secret/deep", 0o550), ("secret", 0o700)] {
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for watched in ["secret", "secret/deep"] {
        let _ = fs::remove_dir_all(&to);
        let mut watching = Watching { directory: to.join(watched), modes: Vec::new() };
        let copy = Copy::new(vec![CopySource::directory(&from).unwrap()], vec![Destination::new(&to)]);
        let report = copy.with_options(CopyOptions::default()).run(&mut watching).unwrap();
        assert!(report.destinations[0].failures.is_empty());
        let allowed = if watched == "secret" { 0o700 } else { 0o750 };
        assert!(!watching.modes.is_empty());
        assert!(watching.modes.iter().all(|mode| mode & !allowed == 0), "{:?}", watching.modes);
        let end = fs::metadata(to.join(watched)).unwrap().permissions().mode() & 0o777;
        assert_eq!(end, if watched == "secret" { 0o700 } else { 0o550 });
    }
}
