//! Many requests that wait for a server.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use stook_testing::web::{End, Page, WebServer};

use super::{Place, eventually};

/// Opens as many files at once as there are in the mountpoint's directory `d`.
const OPEN_ALL: &str = "
import os, threading
def read(name):
    with open('mnt/d/' + name, 'rb', buffering=0) as file:
        file.read(10)
for name in os.listdir('mnt/d'):
    threading.Thread(target=read, args=(name,)).start()
";

#[test]
fn however_many_wait_for_a_server_the_rest_of_the_mount_goes_on() {
    let place = Place::new();
    // Members that are compressed are read when they are opened. A long one has files opened, and
    // what is at the end of an archive is there already.
    place.script(
        "mkdir -p tree/d local/here; for i in $(seq 400); do seq $i 900 > tree/d/$i; done
         head -c 5000000 /dev/urandom > tree/long; cd tree; zip -q ../x.zip d/*; zip -q0 ../x.zip long; cd ..
         head -c 3000000 /dev/urandom > local/here/long; for i in $(seq 9); do echo $i > local/here/$i; done
         $STOOK pack local local.stook -q",
    );
    let stalls = Arc::new(AtomicBool::new(false));
    let (page, is_stalled) = (Page::new(fs::read(place.path("x.zip")).unwrap()), stalls.clone());
    let server = WebServer::start(move |request, _| match is_stalled.load(Ordering::SeqCst) {
        true => page.reply(request).end(End::Stalled(0)),
        false => page.reply(request),
    });
    place.mount(&["--no-push", "--timeout", "600", &server.url("/x.zip"), "local.stook"]);
    assert_eq!(place.script("ls mnt/d | wc -l; cat mnt/here/1"), "400\n1\n");
    stalls.store(true, Ordering::SeqCst);
    let opens = || place.status().requests.open;
    let (before, asked) = (opens(), server.requests().len());
    // Asking for the status opens a file.
    let (own, mut looks) = (opens() - before, 1);
    let mut python = Command::new("python3");
    python.args(["-c", OPEN_ALL]).current_dir(place.dir.path()).stderr(Stdio::null());
    let mut python = python.spawn().unwrap();
    eventually("all of them wait", || {
        looks += 1;
        // The server is asked for no more at once.
        opens() >= before + looks * own + 400 && server.requests().len() >= asked + 64
    });
    // What is known is answered, what is on disk is read, and the status is there.
    let script =
        "ls -lR mnt | grep -c ^-; stat -c %s mnt/long; cat mnt/here/9; cmp mnt/here/long local/here/long
        ls -l mnt/nothing 2> said && exit 1; grep -q 'No such file' said; df mnt > said
        $STOOK mount --status mnt | grep -c ^process";
    assert_eq!(place.script(script), "411\n5000000\n9\n1\n");
    kill_process(Pid::from_child(&python), Signal::KILL).unwrap();
    eventually("who waits can be killed", || python.try_wait().unwrap().is_some());
    place.unmount();
}
