//! What is said of what cannot be shown, read or mounted, and what has ended when it is said.

use super::Place;

#[test]
fn what_is_wrong_with_a_source_is_said_when_it_is_mounted() {
    let place = Place::new();
    place.script(
        "mkdir tree game mod; seq 100000 > tree/a; echo b > tree/b; tar cf x.tar -C tree b a; head -c 300000 x.tar > cut.tar
         cp x.tar game; mkdir mod/x.tar mod/none.tar; echo c > mod/x.tar/b; echo d > mod/none.tar/d",
    );
    let (code, _, stderr) = place.run(&["mount", "cut.tar", "mnt"]);
    assert!(code == 0 && stderr.contains("only what is before that is read"), "{code} {stderr}");
    let hidden = place.status().hidden;
    assert!(hidden.named.iter().any(|named| named.starts_with("cannot read ")), "{hidden:?}");
    assert_eq!(place.script("ls mnt"), "b\n");
    place.unmount();
    let (code, _, stderr) = place.run(&["mount", "game", "mnt", "--with", "mod"]);
    assert!(code == 0 && stderr.contains("mod/none.tar/d: it is for nothing"), "{code} {stderr}");
    assert!(!stderr.contains("mod/x.tar"), "{stderr}");
    assert!(place.status().hidden.named.iter().any(|named| named.contains("none.tar/d")));
    assert_eq!(place.script("tar xOf mnt/x.tar b"), "c\n");
    place.unmount();
    let (code, _, stderr) = place.run(&["mount", "tree", "no/mnt"]);
    assert!(code == 1 && stderr.contains("No such file") && !stderr.contains("fusermount"), "{stderr}");
    let (code, _, stderr) = place.run(&["mount", "ftp://x/a.zip", "mnt"]);
    assert!(code != 0 && stderr.contains("`ftp` is not among"), "{stderr}");
}

#[test]
fn a_mount_in_the_foreground_ends_with_what_it_met() {
    let place = Place::new();
    place.script("mkdir tree; seq 1000 > tree/a; tar cf x.tar -C tree a");
    let serve = |change: &str| {
        place.script(&format!(
            "$STOOK mount --foreground x.tar mnt --log log > said & pid=$!
             for n in {{1..200}}; do grep -q mounted said && break; sleep 0.1; done
             {change}; $STOOK umount mnt; code=0; wait $pid || code=$?; echo $code; rm said"
        ))
    };
    assert_eq!(serve("cmp tree/a mnt/a"), "0\n");
    assert_eq!(serve("touch x.tar; ! cat mnt/a 2> /dev/null"), "1\n");
    // A line of the file has a time.
    assert_eq!(place.script("grep -cE '^20[0-9-]+T[0-9:]+Z stook mount: a: .*x.tar' log"), "1\n");
}

#[test]
fn nothing_of_the_source_is_open_when_it_was_unmounted() {
    let place = Place::new();
    place.script(
        "mkdir tree tm; seq 1000 > tree/a; tar cf x.tar -C tree a; $STOOK pack tree p.stook -q
         mount -t tmpfs none tm; cp -r x.tar p.stook tree tm
         for round in {1..5}; do for source in x.tar p.stook tree; do
            $STOOK mount -q tm/$source mnt; cmp tree/a mnt/a; $STOOK umount mnt
            umount tm; mount -t tmpfs none tm; cp -r x.tar p.stook tree tm
         done; done; umount tm",
    );
}
