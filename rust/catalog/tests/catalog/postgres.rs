//! A real PostgreSQL server for the tests of this program, from Debian's package `postgresql`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

struct Postgres {
    port: u16,
}

static SERVER: OnceLock<Postgres> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// The URL of a new, empty database.
pub fn new_database() -> String {
    let port = SERVER.get_or_init(start).port;
    let name = format!("lake{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let made = command("createdb")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "postgres", &name])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("postgresql://postgres@127.0.0.1:{port}/{name}")
}

/// Whether the server can be started.
pub fn is_installed() -> bool {
    newest_programs().is_some()
}

/// The folder with the server's programs.
fn programs() -> PathBuf {
    newest_programs().expect("these tests need a PostgreSQL server: apt-get install postgresql")
}

fn newest_programs() -> Option<PathBuf> {
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|folders| folders.flatten().map(|folder| folder.path().join("bin")).collect())
        .unwrap_or_default();
    versions.retain(|folder: &PathBuf| folder.join("initdb").exists());
    versions.sort();
    versions.pop()
}

/// A program of the server. PostgreSQL refuses to run as root.
fn command(program: &str) -> Command {
    let program = programs().join(program);
    // SAFETY: has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(program).current_dir("/");
    command
}

#[expect(
    clippy::zombie_processes,
    reason = "the server ends after this process, which its shell waits for"
)]
fn start() -> Postgres {
    let folder = Path::new("/tmp").join(format!("deltaplane-postgres-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut permissions = std::fs::metadata(&folder).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o777);
    std::fs::set_permissions(&folder, permissions).unwrap();
    let data = folder.join("data");
    let made = command("initdb")
        .args([
            "-D",
            data.to_str().unwrap(),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C.UTF-8",
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = command("postgres")
        .args(["-D", data.to_str().unwrap(), "-p", &port.to_string(), "-h", "127.0.0.1"])
        .args(["-c", "unix_socket_directories=", "-c", "shared_buffers=32MB"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..300 {
        let ready = command("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .status()
            .unwrap();
        if ready.success() {
            end_with_this_process(&server, &folder);
            return Postgres { port };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("PostgreSQL at {} did not start", data.display());
}

/// A process can't clean up after its last test: a shell stops the server and removes its files.
#[expect(clippy::zombie_processes, reason = "the shell ends after this process")]
fn end_with_this_process(server: &Child, folder: &Path) {
    let script = format!(
        "while kill -0 {} 2>/dev/null; do sleep 1; done; kill -QUIT {}; sleep 1; rm -rf '{}'",
        std::process::id(),
        server.id(),
        folder.display()
    );
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
}
