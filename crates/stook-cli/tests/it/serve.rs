//! `stook serve`, read by the programs that people read servers with.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::packs::{Place, documented, key};
use super::{ended, send, stook};

/// A server that is killed when it is dropped.
struct Serving {
    child: Child,
    ready: Value,
}

impl Serving {
    fn new(place: &Place, args: &[&str]) -> Self {
        Self::with(place, args, |_| {})
    }

    fn with(place: &Place, args: &[&str], set: impl FnOnce(&mut Command)) -> Self {
        let mut command = stook(["serve"]);
        command.args(args).args(["--port", "0", "--json"]).current_dir(place.dir.path());
        set(command.env_remove("STOOK_SERVE_TOKEN"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("it does not serve: {stderr}");
        }
        Self { child, ready: serde_json::from_str(&line).unwrap() }
    }

    fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    /// Ends it as an init system does; its exit code, and what it printed on stderr.
    fn end(mut self) -> (i32, String) {
        send("-TERM", &self.child);
        let code = self.child.wait().unwrap().code().unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (code, stderr)
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    fn sockets(&self) -> usize {
        let all = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let is_socket = |entry: &std::io::Result<fs::DirEntry>| {
            let target = entry.as_ref().ok().and_then(|entry| fs::read_link(entry.path()).ok());
            target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        all.filter(is_socket).count()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("project/src/deep")).unwrap();
    fs::write(place.path("project/readme.txt"), "read me").unwrap();
    let bytes: Vec<u8> =
        (0..2_000_000_u32).flat_map(|word| word.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    fs::write(place.path("project/src/main"), bytes).unwrap();
    fs::write(place.path("project/src/deep/x"), "").unwrap();
    fs::write(place.path("project/src/a name with % and ?"), "odd").unwrap();
    std::os::unix::fs::symlink("src/main", place.path("project/main")).unwrap();
    place
}

/// Runs a script with `$STOOK` and `$URL`, which has to succeed; its stdout.
fn script(place: &Place, url: &str, script: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(place.dir.path());
    shell.env("STOOK", env!("CARGO_BIN_EXE_stook")).env("URL", url).env_remove("STOOK_SERVE_TOKEN");
    let (code, stdout, stderr) = ended(&mut shell);
    assert_eq!(code, 0, "{script}: {stdout} {stderr}");
    stdout
}

#[test]
fn curl_resumes_a_tar_that_is_nowhere() {
    let place = place();
    let serving = Serving::new(&place, &["project"]);
    documented("serve", &serving.ready);
    for of in [
        "curl -fsS -o whole.tar $URL?as=tar; $STOOK stitch tar project | cmp - whole.tar; tar xf whole.tar -C $(mkdir t; echo t)
         diff -r --no-dereference t project",
        // A download that was cut, at any place, goes on.
        "for at in 1 511 512 4096 3000001; do head -c $at whole.tar > part.tar
         curl -fsS -C - -o part.tar $URL?as=tar; cmp part.tar whole.tar; done",
        "curl -fsS -o s.zip \"${URL}src?as=zip\"
         $STOOK stitch zip project/src | cmp - s.zip; unzip -tq s.zip",
        "curl -fsS -r 1000000-1999999 ${URL}src/main | cmp - <(tail -c +1000001 project/src/main | head -c 1000000)",
        "curl -fsS -L ${URL}main | cmp - project/src/main",
        "curl -fsSI ${URL}src/main | tr -d '\\r' | grep -ix 'content-length: 8000000'",
        "[ \"$(curl -fsS \"${URL}src/a%20name%20with%20%25%20and%20%3F\")\" = odd ]",
        "curl -fsS -z \"$(curl -fsSI ${URL}readme.txt | tr -d '\\r' | sed -n 's/^last-modified: //p')\" \\
            -o none ${URL}readme.txt; [ ! -s none ]",
    ] {
        script(&place, serving.url(), of);
    }
    assert_eq!(serving.end(), (0, "Ctrl-C ends it.\n".to_owned()));
}

#[test]
fn a_server_that_is_begun_again_goes_on_with_a_download() {
    let place = place();
    let serving = Serving::new(&place, &["project"]);
    script(&place, serving.url(), "curl -fsS -D head -o w.tar $URL?as=tar; head -c 5000000 w.tar > p.tar");
    assert_eq!(serving.end().0, 0);
    // The same directory has the same ETag, so that a part of it is known to be one.
    let serving = Serving::new(&place, &["project"]);
    let of = "tag=$(tr -d '\\r' < head | sed -n 's/^etag: //p'); [ -n \"$tag\" ]
        [ \"$(curl -fsS -H \"If-Range: $tag\" -r 5000000- -w '%{http_code}' -o rest $URL?as=tar)\" = 206 ]
        cat p.tar rest | cmp - w.tar";
    script(&place, serving.url(), of);
    drop(serving);
    // One that does not say of which state it is goes on with no other.
    fs::write(place.path("project/0first"), "zz").unwrap();
    let serving = Serving::new(&place, &["project"]);
    let of = "cp p.tar q.tar; code=0; curl -fsS -C - -o q.tar $URL?as=tar || code=$?; [ $code = 33 ]; cmp p.tar q.tar
        curl -fsS -o n.tar $URL?as=tar; head -c 600000 n.tar > q.tar
        curl -fsS -C - -o q.tar $URL?as=tar; cmp q.tar n.tar";
    script(&place, serving.url(), of);
}

#[test]
fn packs_and_archives_are_served_and_our_own_commands_read_them() {
    let place = place();
    let made = "$STOOK pack -q project p.stook; $STOOK stitch tar project > p.tar; $STOOK stitch zip project > p.zip";
    script(&place, "", made);
    for source in ["project", "p.stook", "p.tar//", "p.zip//"] {
        let serving = Serving::new(&place, &[source]);
        for of in [
            "$STOOK cat ${URL}src/main | cmp - project/src/main",
            "$STOOK cat ${URL}src/main --range 4000000..4000123 | cmp - <(tail -c +4000001 project/src/main | head -c 123)",
            "rm -rf out; $STOOK copy -q ${URL}src/main out; cmp out/main project/src/main",
            "$STOOK cat \"$URL?as=tar\" | tar xf - -C $(mktemp -d -p .)",
            "curl -fsS $URL | grep -q '<a href=\"src/\">src/</a>'",
            "curl -fsS -r -7 ${URL}main | cmp - <(tail -c 7 project/src/main)",
            // One record is read by ranges while the whole is.
            "$STOOK cat ${URL}src/a%20name%20with%20%25%20and%20%3F | grep -qx odd",
        ] {
            script(&place, serving.url(), of);
        }
        // What is sent has a state, but for what is no file.
        let of = "curl -fsSI ${URL}src/main | grep -qi '^etag: \"'";
        script(&place, serving.url(), of);
        let (code, stderr) = serving.end();
        assert_eq!((code, stderr.as_str()), (0, "Ctrl-C ends it.\n"), "{source}");
    }
}

#[test]
fn what_is_served_is_served_on_as_an_archive_on_a_server() {
    let place = place();
    script(&place, "", "mkdir up; $STOOK stitch tar project --write up/p.tar");
    let first = Serving::new(&place, &["up"]);
    let archive = format!("{}p.tar//", first.url());
    let second = Serving::new(&place, &[&archive]);
    let hint = "if $STOOK ls ${URL} 2> said; then exit 1; fi; grep -q '?as=tar' said
        $STOOK ls $URL?as=tar | grep -qx p.tar";
    script(&place, first.url(), hint);
    let of = "curl -fsS ${URL}src/main | cmp - project/src/main
        curl -fsS -r 5000000-5000009 ${URL}main | cmp - <(tail -c +5000001 project/src/main | head -c 10)
        curl -fsSI ${URL}readme.txt | grep -qi '^etag: \"'
        curl -fsS $URL?as=tar | cmp - up/p.tar";
    script(&place, second.url(), of);
    // Its source is gone: an answer, and no end.
    assert_eq!(first.end().0, 0);
    script(&place, second.url(), "[ \"$(curl -sS -w '%{http_code}' -o /dev/null ${URL}src/main)\" = 500 ]");
    let (code, stderr) = second.end();
    assert!(code == 1 && stderr.contains("stook: /src/main: "), "{stderr}");
}

#[test]
fn a_server_that_has_no_descriptor_left_says_so_and_goes_on() {
    let place = place();
    let few = |command: &mut Command| {
        let program = command.get_program().to_owned();
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let directory = command.get_current_dir().unwrap().to_owned();
        *command = Command::new("bash");
        command.args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""]).arg(program).args(args);
        command.current_dir(directory);
    };
    let serving = Serving::with(&place, &["project", "--connections", "500"], few);
    let of = "seq 80 | xargs -P 60 -I{} curl -s -o /dev/null -w '%{http_code}\\n' --limit-rate 8M ${URL}src/main > codes
        if grep -vxE '200|503' codes; then exit 1; fi; grep -qx 200 codes
        curl -fsS ${URL}src/main | cmp - project/src/main";
    script(&place, serving.url(), of);
    let (code, stderr) = serving.end();
    assert_eq!(code, i32::from(stderr.contains("Too many open files")), "{stderr}");
}

#[test]
fn clients_that_take_nothing_hold_little_memory() {
    let place = Place::new();
    fs::create_dir(place.path("d")).unwrap();
    fs::File::create(place.path("d/big")).unwrap().set_len(8 << 30).unwrap();
    let serving = Serving::new(&place, &["d"]);
    let address = serving.url().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let clients: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            // Its answer has begun.
            stream.read_exact(&mut [0; 100_000]).unwrap();
            stream
        })
        .collect();
    let status = fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // Three pieces for each, and the program itself.
    assert!(peak_kib < 160 << 10, "{peak_kib} KiB");
    drop(clients);
    assert_eq!(serving.end().0, 0);
}

#[test]
fn python_reads_a_zip_member_by_member_without_fetching_it() {
    let place = place();
    let serving = Serving::new(&place, &["project"]);
    let of = r#"python3 - <<'end'
import io, os, urllib.request, zipfile
url = os.environ["URL"]
class Remote(io.RawIOBase):
    def __init__(self, url):
        self.url, self.at, self.fetched = url, 0, 0
        head = urllib.request.urlopen(urllib.request.Request(url, method="HEAD"))
        self.len = int(head.headers["Content-Length"])
    def seekable(self): return True
    def readable(self): return True
    def tell(self): return self.at
    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, self.len)[whence]
        return self.at
    def read(self, size=-1):
        end = self.len if size < 0 else min(self.len, self.at + size)
        if end <= self.at: return b""
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={self.at}-{end - 1}"})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 206
            data = answer.read()
        assert len(data) == end - self.at
        self.at, self.fetched = end, self.fetched + len(data)
        return data
remote = Remote(url + "?as=zip")
archive = zipfile.ZipFile(remote)
assert archive.read("readme.txt") == b"read me"
assert remote.fetched < 100_000, remote.fetched
assert archive.testzip() is None
assert urllib.request.urlopen(url + "readme.txt").read() == b"read me"
whole = zipfile.ZipFile(io.BytesIO(urllib.request.urlopen(url + "?as=zip").read()))
assert whole.namelist() == archive.namelist() and len(whole.namelist()) == 7, whole.namelist()
end"#;
    script(&place, serving.url(), of);
    assert_eq!(serving.end().0, 0);
}

#[test]
fn a_token_comes_from_the_line_a_file_or_the_environment_and_is_never_shown() {
    let place = place();
    fs::write(place.path("token"), "s3cret word\n").unwrap();
    let right = "[ \"$(curl -fsS -H 'Authorization: Bearer s3cret word' ${URL}readme.txt)\" = 'read me' ]
        [ \"$(curl -fsS -u 'me:s3cret word' ${URL}readme.txt)\" = 'read me' ]
        [ \"$(curl -sS -w '%{http_code}' -o /dev/null ${URL}readme.txt)\" = 401 ]
        [ \"$(curl -sS -w '%{http_code}' -o /dev/null -u me:wrong ${URL}readme.txt)\" = 401 ]";
    for (args, variable) in [
        (&["project", "--token", "s3cret word"][..], None),
        (&["project", "--token-file", "token"], None),
        (&["project"], Some("s3cret word")),
    ] {
        let serving = Serving::with(&place, args, |command| {
            if let Some(token) = variable {
                command.env("STOOK_SERVE_TOKEN", token);
            }
        });
        assert_eq!(serving.ready["token"], true);
        script(&place, serving.url(), right);
        // Our own commands say how it is given, and take it so.
        let of = "if $STOOK cat ${URL}readme.txt 2> said; then exit 1; fi; grep -q 'USER:PASSWORD@ before the host' said
            [ \"$($STOOK cat http://me:s3cret%20word@${URL#http://}readme.txt)\" = 'read me' ]";
        script(&place, serving.url(), of);
        let (code, stderr) = serving.end();
        assert!(code == 0 && !stderr.contains("s3cret"), "{stderr}");
    }
}

#[test]
fn what_would_let_others_read_is_refused_without_a_token() {
    let place = place();
    let refused = |args: &[&str]| {
        let mut command = stook(["serve", "project"]);
        ended(command.args(args).env_remove("STOOK_SERVE_TOKEN").current_dir(place.dir.path()))
    };
    for (args, names) in [
        (&["--listen", "0.0.0.0:0"][..], "--public"),
        (&["--listen", "[::]:0"], "--token-file"),
        (&["--listen", "example.org"], "--listen"),
        (&["--listen", "127.0.0.1:80", "--port", "81"], "--port"),
        (&["--token", ""], "--token"),
        (&["--token", "x", "--public"], "--public"),
        (&["--token-file", "nothing"], "nothing"),
        (&["--connections", "0"], "--connections"),
        // What is here is not fetched, and has no earlier state.
        (&["--cache-dir", "cache"], "--cache-dir"),
        (&["--whole-file"], "--whole-file"),
        (&["--at", "2020-01-01"], "earlier states"),
    ] {
        let (code, stdout, stderr) = refused(args);
        assert!(
            code == if names == "nothing" { 1 } else { 2 } && stdout.is_empty() && stderr.contains(names),
            "{args:?}: {stderr}"
        );
    }
    let (code, _, stderr) = ended(stook(["serve", "nothing"]).current_dir(place.dir.path()));
    assert!(code == 1 && stderr.contains("nothing"), "{stderr}");
    // Who says so may, and for a time.
    let (code, stdout, _) = refused(&["--listen", "0.0.0.0:0", "--public", "--time", "50ms"]);
    assert!(code == 0 && stdout.starts_with("http://"), "{stdout}");
    // What is shown is an address that others can use.
    let serving = Serving::new(&place, &["project", "--listen", "0.0.0.0", "--public"]);
    assert!(serving.ready["address"] == "0.0.0.0" && !serving.url().contains("0.0.0.0"), "{}", serving.ready);
    script(&place, serving.url(), "[ \"$(curl -fsS ${URL}readme.txt)\" = 'read me' ]");
}

#[test]
fn a_token_beside_public_is_refused_wherever_it_is_from() {
    let place = place();
    fs::write(place.path("token"), "x").unwrap();
    for (args, variable, of) in [
        (&["--token", "x"][..], None, "--token gives one"),
        (&["--token-file", "token"], None, "--token-file gives one"),
        // As Python gives the token of its arguments.
        (&["--while-stdin"], Some("x"), "STOOK_SERVE_TOKEN gives one"),
        (&["--listen", "0.0.0.0"], Some("x"), "STOOK_SERVE_TOKEN gives one"),
        (&[], Some(""), "STOOK_SERVE_TOKEN gives an empty token"),
    ] {
        let mut command = stook(["serve", "project", "--public", "--port", "0", "--time", "50ms"]);
        command.args(args).env_remove("STOOK_SERVE_TOKEN").current_dir(place.dir.path());
        if let Some(token) = variable {
            command.env("STOOK_SERVE_TOKEN", token);
        }
        let (code, stdout, stderr) = ended(&mut command);
        assert!(code == 2 && stdout.is_empty() && stderr.contains(of), "{args:?}: {code} {stdout} {stderr}");
    }
}

#[test]
fn damage_of_a_pack_is_an_answer_or_a_short_one_and_is_reported() {
    let place = Place::filled();
    let (path, at) = place.hurt(&key("a/one"), 0);
    assert!(path.exists() && at > 0);
    let serving = Serving::new(&place, &["p.stook"]);
    let of = "[ \"$(curl -sS -w '%{http_code}' -o body ${URL}a/one)\" = 500 ]; grep -qx 'it is damaged' body
        curl -fsS -o two ${URL}a/two; [ -s two ]";
    script(&place, serving.url(), of);
    // Of a whole directory it is said which member it is.
    let of =
        "curl -sS -o body ${URL}a/?as=tar && ! tar tf body >/dev/null 2>&1; grep -qx 'one is damaged' body";
    script(&place, serving.url(), of);
    let (code, stderr) = serving.end();
    assert!(code == 1 && stderr.contains("stook: /a/one: "), "{stderr}");
    assert!(stderr.contains("stook: /a/: one: "), "{stderr}");
}

#[test]
fn what_an_archive_cannot_hold_is_named_once_for_each_download() {
    let place = place();
    script(&place, "", "mkfifo project/src/pipe");
    let serving = Serving::new(&place, &["project"]);
    let of = "curl -fsS -o w.tar $URL?as=tar; tar tf w.tar | grep -qx src/main
        head -c 4096 w.tar > part.tar; curl -fsS -C - -o part.tar $URL?as=tar; cmp part.tar w.tar
        curl -fsSI $URL?as=tar > head; curl -fsS -o deep.zip ${URL}src/deep/?as=zip";
    script(&place, serving.url(), of);
    let (code, stderr) = serving.end();
    let named = "stook: /: src/pipe is a named pipe, and is not in the archive\n";
    assert!(code == 1 && stderr.matches("pipe").count() == 2 && stderr.contains(named), "{stderr}");
}

#[test]
fn a_tar_that_was_cut_off_is_served_and_said_to_be_no_whole_one() {
    let place = place();
    script(&place, "", "$STOOK stitch tar project/src --write w.tar; head -c 7000000 w.tar > cut.tar");
    let serving = Serving::new(&place, &["cut.tar//"]);
    let of = "[ \"$(curl -fsS \"${URL}a%20name%20with%20%25%20and%20%3F\")\" = odd ]
        [ \"$(curl -sS -w '%{http_code}' -o body $URL?as=tar)\" = 500 ]; grep -q 'is not complete' body";
    script(&place, serving.url(), of);
    let (code, stderr) = serving.end();
    assert!(code == 1 && stderr.contains("cut.tar: damaged at offset "), "{stderr}");
    assert!(stderr.contains("only what is before that is read"), "{stderr}");
    // One that only lacks its end may be whole, and is not known to be.
    script(&place, "", "head -c -1024 w.tar > open.tar");
    let serving = Serving::new(&place, &["open.tar//"]);
    script(&place, serving.url(), "curl -fsS ${URL}main | cmp - project/src/main");
    let (code, stderr) = serving.end();
    assert!(code == 1 && stderr.contains("something may have been cut off"), "{stderr}");
}

#[test]
fn a_frame_that_hides_a_name_is_in_the_listing_and_is_reported() {
    let place = Place::new();
    let made = "for n in 1 2 3; do $STOOK put p.stook d/file$n <<< $n; done
        python3 - <<'EOF'
import glob
[path] = glob.glob('p.stook/segment-*')
data = bytearray(open(path, 'rb').read())
data[data.index(b'd/file2')] ^= 4
open(path, 'wb').write(data)
EOF";
    script(&place, "", made);
    let serving = Serving::new(&place, &["p.stook"]);
    let of = "curl -fsS $URL | grep -q 'cannot be read'; curl -fsS ${URL}d/ > listed; grep -q file1 listed
        if grep -q file2 listed; then exit 1; fi; [ \"$(curl -sS -w '%{http_code}' -o body ${URL}d/file2)\" = 500 ]
        for of in '?as=tar' 'd/?as=tar' 'd/?as=zip'; do
            [ \"$(curl -sS -w '%{http_code}' -o body \"$URL$of\")\" = 500 ]; grep -q 'would not be whole' body; done";
    script(&place, serving.url(), of);
    let (code, stderr) = serving.end();
    assert!(code == 1 && stderr.contains("stook: /: ") && stderr.contains("is damaged at"), "{stderr}");
}

#[test]
fn a_source_that_changes_while_it_is_sent_ends_the_answer_and_is_reported() {
    let place = place();
    let serving = Serving::new(&place, &["project"]);
    let address = serving.url().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /src/main HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = vec![0; 100_000];
    stream.read_exact(&mut all).unwrap();
    let before = fs::read(place.path("project/src/main")).unwrap();
    let file = fs::OpenOptions::new().write(true).open(place.path("project/src/main")).unwrap();
    file.write_all_at(b"something else", 7_999_000).unwrap();
    // It may end by a reset.
    let _ = stream.read_to_end(&mut all);
    let body = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(all.len() - body < before.len() && before.starts_with(&all[body..]));
    let (code, stderr) = serving.end();
    let lines = stderr.lines().filter(|line| line.starts_with("stook: /src/main: ")).count();
    assert!(code == 1 && lines == 1 && stderr.contains("changed"), "{stderr}");
}

#[test]
fn an_end_that_cuts_a_download_off_is_said_and_is_what_was_asked_for() {
    let place = place();
    for signal in ["-INT", "-TERM"] {
        let serving = Serving::new(&place, &["project"]);
        script(&place, serving.url(), "curl -fsS -o whole ${URL}src/main");
        let address = serving.url().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /src/main HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        send(signal, &serving.child);
        let (code, stderr) = serving.end();
        assert!(code == 0 && stderr.contains("1 answer was on the way, and ended early."), "{stderr}");
    }
}

#[test]
fn a_thousand_connections_leave_nothing_open() {
    let place = place();
    let serving = Serving::new(&place, &["project", "--connections", "40"]);
    let address = serving.url().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let before = serving.sockets();
    let ask = |path: &str, leaves: bool| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        match leaves {
            // Some leave in the middle of what they asked for.
            true => drop(stream.read(&mut [0; 1000]).unwrap()),
            false => drop(stream.read_to_end(&mut all).unwrap()),
        }
        leaves || all.starts_with(b"HTTP/1.1 200 ")
    };
    let paths = ["/readme.txt", "/src/main", "/", "/?as=tar", "/src/?as=zip"];
    // Threads, engines and what they keep are there after the first ones.
    paths.iter().for_each(|path| assert!(ask(path, false), "{path}"));
    std::thread::scope(|scope| {
        for thread in 0..50_usize {
            let ask = &ask;
            scope.spawn(move || {
                for number in 0..20_usize {
                    let path = paths[if number == 7 { 1 + thread % 4 } else { 0 }];
                    assert!(ask(path, number % 7 == 0), "{path}");
                }
            });
        }
    });
    // What is left is what was there before the first: connections end a moment later.
    let mut open = serving.sockets();
    for _ in 0..500 {
        if open == before {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        open = serving.sockets();
    }
    assert_eq!(open, before, "sockets are open");
    // An engine for each reader, whose number is bounded.
    let left = serving.descriptors();
    assert!(left < 100, "{left} descriptors are open");
    assert_eq!(serving.end().0, 0);
}
