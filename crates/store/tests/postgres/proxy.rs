//! A bad network between a replica and the database.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// What happens to the next bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    None,
    /// What is sent arrives, its answer does not, and the connection breaks.
    LoseAnswer,
    /// What is sent does not arrive, and the connection breaks.
    LoseRequest,
    /// The first 64 KiB arrive, the rest never does; nothing breaks.
    Stall,
    /// Every connection breaks at once.
    Cut,
}

/// Forwards a port of 127.0.0.1.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    fault: AtomicU8,
    passed: AtomicUsize,
}

impl Proxy {
    pub(crate) fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { fault: AtomicU8::new(0), passed: AtomicUsize::new(0) });
        let of_threads = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let pairs = [(&client, &server, true), (&server, &client, false)];
                for (from, to, is_request) in pairs {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = of_threads.clone();
                    thread::spawn(move || shared.forward(from, to, is_request));
                }
            }
        });
        Self { port, shared }
    }

    /// The address of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.shared.passed.store(0, Ordering::SeqCst);
        self.shared.fault.store(fault as u8, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self, fault: Fault) -> bool {
        self.shared.fault.load(Ordering::SeqCst) == fault as u8
    }
}

impl Shared {
    fn forward(&self, mut from: TcpStream, mut to: TcpStream, is_request: bool) {
        let mut buffer = vec![0; 16 << 10];
        from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        loop {
            let fault = self.fault.load(Ordering::SeqCst);
            if fault == Fault::Cut as u8 {
                break;
            }
            let size = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(size) => size,
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            let fault = self.fault.load(Ordering::SeqCst);
            let breaks = if is_request { Fault::LoseRequest } else { Fault::LoseAnswer };
            if fault == breaks as u8 {
                // The rest of it must have arrived, or have been read.
                thread::sleep(Duration::from_millis(150));
                let clear = Fault::None as u8;
                let _ = self.fault.compare_exchange(fault, clear, Ordering::SeqCst, Ordering::SeqCst);
                break;
            }
            if is_request && fault == Fault::Stall as u8 {
                while self.passed.load(Ordering::SeqCst) >= 64 << 10
                    && self.fault.load(Ordering::SeqCst) == Fault::Stall as u8
                {
                    thread::sleep(Duration::from_millis(10));
                }
                self.passed.fetch_add(size, Ordering::SeqCst);
            }
            if to.write_all(&buffer[..size]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
