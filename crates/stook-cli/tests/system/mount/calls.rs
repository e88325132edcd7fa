//! Every call of the file system, and its error: the same as on a read-only mount of ext4.

use std::process::Command;

use stook_testing::privileged::{EXT4, LoopDevice, run};

use super::Place;

/// Prints, for each call, what it returns or the name of its error.
const CALLS: &str = r#"
import ctypes, errno, fcntl, mmap, os, socket, stat, sys
root = sys.argv[1]
os.chdir(root)
libc = ctypes.CDLL(None, use_errno=True)
def call(name, work):
    try:
        print(name, work())
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def opened(path, flags, work):
    def run():
        fd = os.open(path, flags)
        try:
            return work(fd)
        finally:
            os.close(fd)
    return run
nothing = lambda fd: "done"
kind = lambda path: stat.S_IFMT(os.lstat(path).st_mode)
for path in "file", "dir", "link", "dangling", "missing", "file/x", "dir/missing", "loop", "n" * 256, "big":
    shown = path[:12]
    for flags in "O_RDONLY", "O_WRONLY", "O_RDWR":
        call(f"open {shown} {flags}", opened(path, getattr(os, flags), nothing))
    for flags in "O_CREAT", "O_TRUNC", "O_APPEND", "O_DIRECTORY", "O_NOFOLLOW", "O_PATH":
        call(f"open {shown} {flags}", opened(path, getattr(os, flags), nothing))
    call(f"open {shown} exclusively", opened(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, nothing))
    call(f"stat {shown}", lambda: os.stat(path).st_mode & 0o7777)
    call(f"lstat {shown}", lambda: kind(path))
    call(f"readlink {shown}", lambda: os.readlink(path))
    call(f"listdir {shown}", lambda: sorted(os.listdir(path)))
    call(f"unlink {shown}", lambda: os.unlink(path))
    call(f"rmdir {shown}", lambda: os.rmdir(path))
    call(f"mkdir {shown}", lambda: os.mkdir(path))
    call(f"mknod {shown}", lambda: os.mknod(path, stat.S_IFIFO | 0o600))
    call(f"symlink {shown}", lambda: os.symlink("x", path))
    call(f"link {shown}", lambda: os.link(path, "other"))
    call(f"rename {shown}", lambda: os.rename(path, "other"))
    call(f"rename to {shown}", lambda: os.rename("file", path))
    call(f"chmod {shown}", lambda: os.chmod(path, 0o600))
    call(f"chown {shown}", lambda: os.chown(path, 1, 1))
    call(f"utime {shown}", lambda: os.utime(path))
    call(f"truncate {shown}", lambda: os.truncate(path, 1))
    call(f"access {shown} R", lambda: os.access(path, os.R_OK))
    call(f"access {shown} W", lambda: os.access(path, os.W_OK))
    call(f"access {shown} X", lambda: os.access(path, os.X_OK))
    call(f"setxattr {shown}", lambda: os.setxattr(path, "user.x", b"y"))
    call(f"removexattr {shown}", lambda: os.removexattr(path, "user.note"))
    call(f"getxattr {shown}", lambda: os.getxattr(path, "user.note"))
    call(f"getxattr of none {shown}", lambda: os.getxattr(path, "user.none"))
    call(f"listxattr {shown}", lambda: os.listxattr(path))
def reads(fd):
    return [os.pread(fd, 5, at) for at in (0, 3, 6, 7, 8, 1 << 40)]
call("read", opened("file", os.O_RDONLY, reads))
call("read dir", opened("dir", os.O_RDONLY, lambda fd: os.read(fd, 1)))
call("pread before", opened("file", os.O_RDONLY, lambda fd: os.pread(fd, 1, -1)))
call("write", opened("file", os.O_RDONLY, lambda fd: os.write(fd, b"x")))
call("ftruncate", opened("file", os.O_RDONLY, lambda fd: os.ftruncate(fd, 1)))
call("fsync", opened("file", os.O_RDONLY, lambda fd: os.fsync(fd)))
call("fdatasync", opened("file", os.O_RDONLY, lambda fd: os.fdatasync(fd)))
call("fsync dir", opened("dir", os.O_RDONLY, lambda fd: os.fsync(fd)))
call("fchmod", opened("file", os.O_RDONLY, lambda fd: os.fchmod(fd, 0o600)))
call("fallocate", opened("file", os.O_RDONLY, lambda fd: os.posix_fallocate(fd, 0, 10)))
call("lseek end", opened("file", os.O_RDONLY, lambda fd: os.lseek(fd, 0, os.SEEK_END)))
call("lseek data", opened("big", os.O_RDONLY, lambda fd: os.lseek(fd, 5, os.SEEK_DATA)))
call("lseek hole", opened("big", os.O_RDONLY, lambda fd: os.lseek(fd, 5, os.SEEK_HOLE)))
call("lseek past", opened("big", os.O_RDONLY, lambda fd: os.lseek(fd, 1 << 40, os.SEEK_DATA)))
call("lseek dir", opened("dir", os.O_RDONLY, lambda fd: os.lseek(fd, 0, os.SEEK_SET)))
call("mmap", opened("file", os.O_RDONLY, lambda fd: bytes(mmap.mmap(fd, 7, mmap.MAP_SHARED, mmap.PROT_READ))))
call("mmap of a copy", opened("file", os.O_RDONLY, lambda fd: mmap.mmap(fd, 7, mmap.MAP_PRIVATE)[:3]))
call("lock", opened("file", os.O_RDONLY, lambda fd: fcntl.flock(fd, fcntl.LOCK_SH)))
call("posix lock", opened("file", os.O_RDONLY, lambda fd: fcntl.lockf(fd, fcntl.LOCK_SH)))
call("ioctl", opened("file", os.O_RDONLY, lambda fd: fcntl.ioctl(fd, 0x5401)))
call("copy_file_range", opened("file", os.O_RDONLY, lambda fd: os.copy_file_range(fd, fd, 3)))
call("sendfile", opened("file", os.O_RDONLY, lambda fd: os.sendfile(os.open("/dev/null", os.O_WRONLY), fd, 0, 9)))
call("direct", opened("big", os.O_RDONLY | os.O_DIRECT, lambda fd: os.preadv(fd, [mmap.mmap(-1, 4096)], 4096)))
call("chdir file", lambda: os.chdir("file"))
call("tmpfile", opened(".", os.O_TMPFILE | os.O_RDWR, nothing))
call("socket", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
call("statvfs", lambda: (os.statvfs(".").f_namemax, os.statvfs(".").f_bavail >= 0))
"#;

#[test]
fn every_call_returns_what_it_does_on_a_read_only_ext4() {
    let place = Place::new();
    let device = LoopDevice::mount_as(EXT4, 64 << 20, 512).unwrap();
    let tree = device.path().join("tree");
    let script = "mkdir tree tree/dir; cd tree; echo seven. > file; chmod 751 file; echo in > dir/in; ln -s file link
        ln -s nowhere dangling; ln -s loop loop; setfattr -n user.note -v text file; head -c 2000000 /dev/urandom > big";
    run(Command::new("bash").args(["-euc", script]).current_dir(device.path())).unwrap();
    let packed = place.path("p.stook");
    place.stook(&["pack", tree.to_str().unwrap(), packed.to_str().unwrap()]);
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(device.path())).unwrap();
    let calls = |path: &std::path::Path| {
        let mut python = Command::new("python3");
        let (code, stdout, stderr) = crate::program::ended(python.args(["-c", CALLS]).arg(path));
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    let wanted = calls(&tree);
    for args in [&["p.stook"][..], &[tree.to_str().unwrap()]] {
        place.mount(args);
        let found = calls(&place.mountpoint());
        let differ: Vec<_> =
            wanted.lines().zip(found.lines()).filter(|(wanted, found)| wanted != found).collect();
        assert!(differ.is_empty(), "{args:?}: (ext4, mounted): {differ:#?}");
        assert_eq!(wanted.lines().count(), found.lines().count());
        place.unmount();
    }
}
