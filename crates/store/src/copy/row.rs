//! Rows on their way, and their digest.

use multicluster_types::hex;
use sha2::{Digest as _, Sha256};

use super::{
    CopyError,
    tables::{CONTENTS, PIECES, Table},
};

/// One value, the same for both backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Blob(Vec<u8>),
}

pub(crate) type Row = Vec<Value>;

impl Value {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
            _ => 8,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// How much memory rows take, about.
pub(crate) fn bytes(row: &Row) -> usize {
    row.iter().map(Value::bytes).sum()
}

/// The SHA-256 of the rows of one table in their order: each value with its type and its length.
#[derive(Default)]
pub(crate) struct Digest {
    hash: Sha256,
    pub(crate) rows: u64,
}

impl Digest {
    pub(crate) fn add(&mut self, row: &Row) {
        self.rows += 1;
        let mut put = |kind: u8, bytes: &[u8]| {
            self.hash.update([kind]);
            self.hash.update((bytes.len() as u64).to_le_bytes());
            self.hash.update(bytes);
        };
        for value in row {
            match value {
                Value::Null => put(0, &[]),
                Value::Int(number) => put(1, &number.to_le_bytes()),
                Value::Bool(is) => put(2, &[u8::from(*is)]),
                Value::Text(text) => put(3, text.as_bytes()),
                Value::Blob(bytes) => put(4, bytes),
            }
        }
    }

    pub(crate) fn end(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

/// Checks that packages are what their names say: a package that was damaged long ago would otherwise be
/// found when a job needs it.
#[derive(Default)]
pub(crate) struct Packages {
    known: u64,
    whole: u64,
    current: Option<(String, Sha256)>,
}

impl Packages {
    pub(crate) fn add(&mut self, table: &Table, row: &Row) -> Result<(), CopyError> {
        if table.name == CONTENTS.name {
            self.known += 1;
        } else if table.name == PIECES.name
            && let [Value::Text(sha256), _, Value::Blob(body)] = row.as_slice()
        {
            if self.current.as_ref().is_none_or(|(current, _)| current != sha256) {
                self.end()?;
                self.current = Some((sha256.clone(), Sha256::new()));
            }
            if let Some((_, hash)) = &mut self.current {
                hash.update(body);
            }
        }
        Ok(())
    }

    /// After the last table.
    pub(crate) fn end(&mut self) -> Result<(), CopyError> {
        if let Some((sha256, hash)) = self.current.take() {
            if hex(&hash.finalize()) != sha256 {
                return Err(CopyError::Damaged(format!("the package {sha256} has another content")));
            }
            self.whole += 1;
        }
        Ok(())
    }

    pub(crate) fn are_complete(&mut self) -> Result<(), CopyError> {
        self.end()?;
        let missing = self.known.saturating_sub(self.whole);
        if missing > 0 {
            return Err(CopyError::Damaged(format!("the contents of {missing} packages are missing")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[Row]) -> [u8; 32] {
        let mut digest = Digest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest.end()
    }

    #[test]
    fn no_two_tables_have_one_digest_by_moving_bytes_between_values() {
        let text = |text: &str| Value::Text(text.into());
        let all = [
            vec![vec![text("ab"), text("c")]],
            vec![vec![text("a"), text("bc")]],
            [vec![text("ab")], vec![text("c")]].concat().chunks(1).map(<[_]>::to_vec).collect(),
            vec![vec![Value::Blob(b"ab".to_vec()), text("c")]],
            vec![vec![text("ab"), Value::Null, text("c")]],
            vec![vec![Value::Int(1), Value::Int(0)]],
            vec![vec![Value::Bool(true), Value::Int(0)]],
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                // Where one row ends is said by the number of columns, which a table fixes.
                let is_split = [at, other_at] == [0, 2] || [at, other_at] == [2, 0];
                assert_eq!(of(one) == of(other), at == other_at || is_split, "{one:?} {other:?}");
            }
        }
    }
}
