// SPDX-License-Identifier: MIT
//! Several cells in one step.
use crate::error::{call, Expect};
use crate::input::{bytes_ptr, millis};
use crate::op::{ok, Op};
use crate::{sys, CellAction, Result, Status, Store};

/// One cell of a commit.
#[derive(Clone, Debug)]
pub struct CellItem {
    /// The name of the cell.
    pub name: Vec<u8>,
    /// The version that it must have; `Some(0)`: there must be none; `None`: any, or none.
    pub version: Option<u64>,
    /// What to do; [`CellAction::Leave`] only asserts the version.
    pub action: CellAction,
}

impl CellItem {
    /// An item.
    pub fn new(name: impl AsRef<[u8]>, version: Option<u64>, action: CellAction) -> CellItem {
        CellItem {
            name: name.as_ref().to_vec(),
            version,
            action,
        }
    }

    fn raw(&self) -> sys::hf_cell_item {
        let mut raw = sys::hf_cell_item::init();
        raw.name = bytes_ptr(&self.name);
        raw.name_len = self.name.len();
        raw.version = self.version.unwrap_or(sys::HF_CELL_ANY);
        let (action, bytes, ttl) = match &self.action {
            CellAction::Leave => (sys::HF_CELL_ACTION_LEAVE, &[][..], 0),
            CellAction::Delete => (sys::HF_CELL_ACTION_DELETE, &[][..], 0),
            CellAction::Write(bytes) => (sys::HF_CELL_ACTION_WRITE, &bytes[..], 0),
            CellAction::WriteFor(bytes, ttl) => {
                (sys::HF_CELL_ACTION_WRITE, &bytes[..], millis(*ttl))
            }
        };
        raw.action = action;
        raw.bytes = bytes_ptr(bytes);
        raw.len = bytes.len();
        raw.ttl_ms = ttl;
        raw
    }
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a commit may have done nothing"]
pub enum Commit {
    /// All items were done; these are the versions that their cells have now (0: none).
    Done(Vec<u64>),
    /// Nothing was done: the cell of this item has another version (0: it does not exist).
    Changed {
        /// The first such item.
        index: usize,
        /// The version that its cell has.
        version: u64,
    },
}

impl Store {
    /// If every item's cell has the version that the item expects, do all items, at one moment for
    /// everybody else; else nothing.
    pub fn commit(&self, items: &[CellItem]) -> Result<Commit> {
        let raws: Vec<_> = items.iter().map(CellItem::raw).collect();
        let (mut versions, mut index) = (vec![0; raws.len()], 0);
        let done = call(|err| unsafe {
            let (first, count) = (raws.as_ptr(), raws.len());
            sys::hf_cells_commit(
                self.raw(),
                first,
                count,
                versions.as_mut_ptr(),
                &mut index,
                err,
            )
        });
        Ok(match done.unless(Status::Changed)? {
            Some(()) => Commit::Done(versions),
            None => Commit::Changed {
                index,
                version: versions.get(index).copied().unwrap_or(0),
            },
        })
    }

    /// [`commit`](Store::commit) without blocking.
    pub fn commit_async(&self, items: &[CellItem]) -> Op<'static, Commit> {
        let (store, items) = (self.clone(), items.to_vec());
        Op::new(
            self,
            move |b| {
                let raws: Vec<_> = items.iter().map(CellItem::raw).collect();
                let (first, count) = (raws.as_ptr(), raws.len());
                unsafe {
                    sys::hf_cells_commit_async(
                        store.raw(),
                        first,
                        count,
                        b.done,
                        b.arg,
                        b.op,
                        b.err,
                    )
                }
            },
            |result| {
                Ok(match ok(result).unless(Status::Changed)? {
                    Some(()) if result.versions.is_null() => Commit::Done(Vec::new()),
                    Some(()) => Commit::Done(unsafe {
                        std::slice::from_raw_parts(result.versions, result.count).to_vec()
                    }),
                    None => Commit::Changed {
                        index: usize::try_from(result.number).unwrap_or(0),
                        version: result.version,
                    },
                })
            },
        )
    }
}
