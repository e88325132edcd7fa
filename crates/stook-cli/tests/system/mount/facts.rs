//! What a pack or an archive says of its members: extended attributes that no list has.

use serde_json::Value;

use super::Place;

/// The lines of a command with `--json`.
fn documents(place: &Place, args: &[&str]) -> Vec<Value> {
    let lines = place.stook(&[args, &["--json"]].concat());
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The attribute of a file of the mount; `None` where it has none.
fn xattr(place: &Place, file: &str, name: &str) -> Option<String> {
    let mut value = vec![0; 4096];
    match rustix::fs::lgetxattr(place.path("mnt").join(file), name, &mut value[..]) {
        Ok(len) => Some(String::from_utf8(value[..len].to_vec()).unwrap()),
        Err(rustix::io::Errno::NODATA) => None,
        Err(error) => panic!("{file} {name}: {error}"),
    }
}

#[test]
fn members_of_a_pack_have_their_key_and_group_and_no_list_of_them() {
    let place = Place::new();
    place.script(
        r"mkdir -p tree/d; echo a > tree/d/a.txt; echo b > tree/d/b.bin; echo c > 'tree/back\slash'; mkfifo tree/fifo
          ln tree/d/a.txt tree/d/again; ln -s a.txt tree/d/link; $STOOK pack tree p.stook -q --exclude fifo
          echo x > x; $STOOK put p.stook --group notes n/1 x; $STOOK put p.stook id:7 x",
    );
    place.mount(&["--member-xattrs", "p.stook"]);
    let mut groups = 0;
    for record in documents(&place, &["ls", "p.stook", "-l"]) {
        let (group, key) = (record["group"].as_str().unwrap(), record["key"].as_str());
        // A number is called as it is given to commands, and a name of a file leads to the first.
        let (file, is_link) = (key.unwrap_or("id:7"), record["kind"] == "hard_link");
        let Some(said) = xattr(&place, file, "user.stook.key") else {
            assert_eq!(record["kind"], "symlink", "{file}: `user.` is only of files and directories");
            continue;
        };
        let same = documents(&place, &["ls", "p.stook", "--from", &said]);
        match (key, is_link) {
            (None, _) => assert_eq!((said.as_str(), &same[0]["key_id"]), ("id:7", &record["key_id"])),
            (Some(_), true) => assert_eq!(same[0]["key"], record["link"]),
            (Some(_), false) => assert_eq!(same[0]["key"], record["key"], "{said}"),
        }
        // What it says is what `get` takes, but for directories.
        if record["kind"] != "directory" {
            let body = place.stook(&["get", "p.stook", "--", &said]);
            assert_eq!(body, std::fs::read_to_string(place.path("mnt").join(file)).unwrap());
        }
        assert_eq!(xattr(&place, file, "user.stook.group").as_deref().unwrap_or(""), group);
        groups += usize::from(!group.is_empty());
        assert_eq!(xattr(&place, file, "user.stook.checksum"), None, "records have one for each part");
        assert_eq!(xattr(&place, file, "user.other"), None);
    }
    assert_eq!(groups, 1);
    // Of what has no record nothing is said.
    assert_eq!((xattr(&place, "n", "user.stook.key"), xattr(&place, "n", "user.stook.group")), (None, None));
    // Copies have none of them, and a list is asked for once.
    let copied = "(getfattr -R -d -m - mnt || true) 2>/dev/null; cp -a mnt copy; getfattr -R -d -m - copy";
    assert_eq!(place.script(copied), "");
    place.unmount();
    // Unasked, nothing that costs requests is answered, and where it costs none, all.
    place.mount(&["p.stook"]);
    assert_eq!(refusal(&place, "d/a.txt"), Some(rustix::io::Errno::OPNOTSUPP));
    place.script("ls -lR mnt >/dev/null");
    assert!(place.status().requests.xattr <= 2);
    place.unmount();
    place.script("setfattr -n user.note -v text tree/d/a.txt; $STOOK pack tree q.stook -q --exclude fifo");
    place.mount(&["q.stook"]);
    assert_eq!(refusal(&place, "d/a.txt"), None);
    assert_eq!(xattr(&place, "d/a.txt", "user.note").as_deref(), Some("text"));
    assert_eq!(place.script("getfattr -d -m - mnt/d/a.txt | grep -c stook || true"), "0\n");
    place.unmount();
}

/// Why a file has no key, if it has none.
fn refusal(place: &Place, file: &str) -> Option<rustix::io::Errno> {
    rustix::fs::lgetxattr(place.path("mnt").join(file), "user.stook.key", &mut [0; 4096][..]).err()
}

#[test]
fn members_of_a_zip_have_the_checksum_that_it_keeps() {
    let place = Place::new();
    place.script(
        "mkdir -p tree/d; head -c 3000 /dev/urandom > tree/d/a; echo text > tree/b; cd tree; zip -0qr ../x.zip d b
         tar cf ../x.tar d b",
    );
    place.mount(&["--member-xattrs", "x.zip"]);
    let listed = place.script(
        "unzip -v x.zip | awk 'length($7) == 8 && $2 == \"Stored\" && $8 !~ /\\/$/ { print $7, $8 }'",
    );
    assert_eq!(listed.lines().count(), 2, "{listed}");
    for line in listed.lines() {
        let (crc32, name) = line.split_once(' ').unwrap();
        assert_eq!(xattr(&place, name, "user.stook.checksum"), Some(format!("crc32:{crc32}")));
        assert_eq!(xattr(&place, name, "user.stook.key").as_deref(), Some(name));
        assert_eq!(xattr(&place, name, "user.stook.group"), None);
    }
    place.unmount();
    place.mount(&["--member-xattrs", "x.tar"]);
    assert_eq!(xattr(&place, "d/a", "user.stook.key").as_deref(), Some("d/a"));
    assert_eq!(xattr(&place, "d/a", "user.stook.checksum"), None);
    place.unmount();
}
