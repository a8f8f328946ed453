//! An address in front of a control plane: one replica of it, which refuses, dies or loses its leader
//! when a test says so.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// What a door does with the next requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 503: nothing was done.
    NoLeader,
    /// It is done, and 503 says that it may have been.
    LeaderLost,
    /// It is done, and the connection ends before the answer.
    Dies,
}

#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) address: String,
    inner: Arc<Inner>,
}

struct Inner {
    plane: String,
    is_open: AtomicBool,
    /// One each; the last stays if `stays`.
    faults: Mutex<Vec<Fault>>,
    stays: AtomicBool,
    /// The only requests that faults are for: their first words.
    faulty: Mutex<String>,
    /// The first line of every request.
    asked: Mutex<Vec<String>>,
    /// What `GET` of this path answers.
    canned: Mutex<Option<(String, String)>>,
    streams: Mutex<Vec<TcpStream>>,
    listens_at: SocketAddr,
}

impl Door {
    /// In front of the control plane at this address.
    pub(crate) fn to(plane: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listens_at = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            plane: plane.trim_start_matches("http://").to_owned(),
            is_open: AtomicBool::new(true),
            faults: Mutex::default(),
            stays: AtomicBool::new(false),
            faulty: Mutex::default(),
            asked: Mutex::default(),
            canned: Mutex::default(),
            streams: Mutex::default(),
            listens_at,
        });
        let serving = inner.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if !serving.is_open.load(Ordering::SeqCst) {
                    return;
                }
                let (inner, stream) = (serving.clone(), stream.unwrap());
                thread::spawn(move || drop(inner.serve(stream)));
            }
        });
        Self { address: format!("http://{listens_at}"), inner }
    }

    /// The next requests meet these faults, one each.
    pub(crate) fn next(&self, faults: &[Fault]) {
        *self.inner.faults.lock().unwrap() = faults.iter().rev().copied().collect();
        self.inner.stays.store(false, Ordering::SeqCst);
    }

    /// All requests do, from now on.
    pub(crate) fn always(&self, fault: Fault) {
        self.next(&[fault]);
        self.inner.stays.store(true, Ordering::SeqCst);
    }

    /// Faults are only for requests that begin so, such as `POST /v1/jobs `.
    pub(crate) fn only(&self, request: &str) {
        request.clone_into(&mut self.inner.faulty.lock().unwrap());
    }

    /// `GET` of this path answers this.
    pub(crate) fn answers(&self, path: &str, json: &str) {
        *self.inner.canned.lock().unwrap() = Some((format!("GET {path} "), json.to_owned()));
    }

    /// How many requests began so.
    pub(crate) fn asked(&self, request: &str) -> usize {
        self.inner.asked.lock().unwrap().iter().filter(|line| line.starts_with(request)).count()
    }

    /// Nothing listens there any more, and every connection is broken.
    pub(crate) fn close(&self) {
        self.inner.is_open.store(false, Ordering::SeqCst);
        // Wakes the listener, which ends.
        drop(TcpStream::connect(self.inner.listens_at));
        for stream in self.inner.streams.lock().unwrap().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
        while TcpStream::connect(self.inner.listens_at).is_ok() {
            thread::yield_now();
        }
    }
}

impl Inner {
    /// One request; the connection ends with its answer.
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        self.streams.lock().unwrap().push(client.try_clone()?);
        let mut reader = BufReader::new(client.try_clone()?);
        let (mut head, mut first, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        self.asked.lock().unwrap().push(first.trim_end().to_owned());
        let canned = self.canned.lock().unwrap().clone();
        if let Some((_, json)) = canned.filter(|(request, _)| first.starts_with(request)) {
            return answer(&mut client, "200 OK", &json);
        }
        let fault = self.fault(&first);
        if fault == Some(Fault::NoLeader) {
            return refuse(&mut client, "no_leader");
        }
        let mut plane = TcpStream::connect(&self.plane)?;
        self.streams.lock().unwrap().push(plane.try_clone()?);
        write!(plane, "{head}connection: close\r\n\r\n")?;
        plane.write_all(&body)?;
        match fault {
            None => std::io::copy(&mut plane, &mut client).map(drop)?,
            // Once it has answered, it is done.
            Some(fault) => {
                plane.read_to_end(&mut Vec::new())?;
                if fault == Fault::LeaderLost {
                    refuse(&mut client, "leader_lost")?;
                }
            }
        }
        client.shutdown(Shutdown::Both)
    }

    fn fault(&self, request: &str) -> Option<Fault> {
        if !request.starts_with(self.faulty.lock().unwrap().as_str()) {
            return None;
        }
        let mut faults = self.faults.lock().unwrap();
        if self.stays.load(Ordering::SeqCst) { faults.first().copied() } else { faults.pop() }
    }
}

fn refuse(client: &mut TcpStream, code: &str) -> std::io::Result<()> {
    let body = format!(r#"{{"code": "{code}", "message": "the replica says {code}", "hint": "try again"}}"#);
    answer(client, "503 Service Unavailable\r\nretry-after: 0", &body)
}

fn answer(client: &mut TcpStream, status: &str, json: &str) -> std::io::Result<()> {
    let length = json.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}"
    )
}
