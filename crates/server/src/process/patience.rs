//! Gives up connections whose client reads nothing: the data for it would be kept forever
//! otherwise.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

pub(super) struct Patient<S, T> {
    stream: S,
    patience: Duration,
    /// Called when the client stops reading, and when it reads again.
    tell: T,
    /// Runs while the client reads nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S, T: Fn(bool)> Patient<S, T> {
    /// The connection fails when not a byte is read for this long.
    pub(super) fn new(stream: S, patience: Duration, tell: T) -> Self {
        Self { stream, patience, tell, stuck: None }
    }

    fn watch<R>(&mut self, taken: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        if taken.is_ready() {
            if self.stuck.take().is_some() {
                (self.tell)(false);
            }
            return taken;
        }
        if self.stuck.is_none() {
            (self.tell)(true);
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        stuck
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "it takes nothing")))
    }
}

impl<S: AsyncRead + Unpin, T: Fn(bool) + Unpin> AsyncRead for Patient<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin, T: Fn(bool) + Unpin> AsyncWrite for Patient<S, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(taken, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(taken, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn who_takes_nothing_is_given_up_and_who_is_slow_is_not() {
        let (ours, mut theirs) = duplex(10);
        let patience = Duration::from_millis(500);
        let told = std::cell::RefCell::new(Vec::new());
        let mut ours = Patient::new(ours, patience, |stuck| told.borrow_mut().push(stuck));
        let slow = async {
            for _ in 0..10 {
                tokio::time::sleep(patience / 5).await;
                theirs.read_exact(&mut [0; 10]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 100]), slow);
        written.unwrap();
        ours.write_all(&[0; 10]).await.unwrap();
        let began = std::time::Instant::now();
        assert_eq!(ours.write_all(&[0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= patience);
        let told = told.borrow();
        assert!(
            told.len() > 2 && told.chunks(2).all(|pair| pair[0] && !pair.get(1).unwrap_or(&false)),
            "{told:?}"
        );
    }
}
