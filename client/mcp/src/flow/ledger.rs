//! What the MCP clients tried, and what they were told: the one side of the verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Mutex,
};

use serde::Serialize;

use crate::cart::{Line, Order};

/// One event, a line of the ledger's file.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// A cart was asked for.
    CreateTried {
        /// The flow that asks.
        flow: u64,
    },
    /// The client was told of its cart.
    Created {
        /// The flow that asked.
        flow: u64,
        /// Its cart.
        cart_id: String,
    },
    /// A line is about to be sent.
    AddTried {
        /// The cart.
        cart_id: String,
        /// The line.
        line: Line,
    },
    /// The client was told that the line is in the cart.
    Added {
        /// The cart.
        cart_id: String,
        /// The line's id.
        line_id: String,
    },
    /// A checkout is about to be sent.
    CheckoutTried {
        /// The cart.
        cart_id: String,
    },
    /// The client was given the order.
    CheckedOut {
        /// The order.
        order: Order,
    },
    /// An abandonment is about to be sent.
    AbandonTried {
        /// The cart.
        cart_id: String,
    },
    /// The client was told that the cart is no more.
    Abandoned {
        /// The cart.
        cart_id: String,
    },
    /// What the client was told does not agree with what it was told before.
    Contradicted {
        /// The cart.
        cart_id: String,
        /// What was wrong.
        what: String,
    },
    /// The flow ended early.
    GaveUp {
        /// The flow.
        flow: u64,
        /// Why.
        why: String,
    },
}

/// What is known of one cart.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Every line that was sent, by its id.
    pub tried: BTreeMap<String, Line>,
    /// The ids of the lines that were acknowledged.
    pub added: BTreeSet<String>,
    /// Whether a checkout was sent.
    pub checkout_tried: bool,
    /// The order that was acknowledged.
    pub order: Option<Order>,
    /// Whether an abandonment was sent.
    pub abandon_tried: bool,
    /// Whether the abandonment was acknowledged.
    pub abandoned: bool,
}

impl Account {
    /// Whether the cart must be open: nothing that would close it was ever sent.
    #[must_use]
    pub fn must_be_open(&self) -> bool {
        !self.checkout_tried && !self.abandon_tried
    }

    /// Whether the cart must be closed: the client was told so.
    #[must_use]
    pub fn must_be_closed(&self) -> bool {
        self.order.is_some() || self.abandoned
    }
}

/// All accounts, and what else the clients noted.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    /// By cart id.
    pub carts: BTreeMap<String, Account>,
    /// Carts that were asked for.
    pub creates_tried: u64,
    /// Contradictions between two answers.
    pub contradictions: Vec<String>,
    /// Flows that ended early, and why.
    pub gave_up: Vec<String>,
}

impl Accounts {
    /// Takes an event into account.
    pub fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::CreateTried { .. } => self.creates_tried += 1,
            Entry::Created { cart_id, .. } => {
                self.carts.entry(cart_id.clone()).or_default();
            }
            Entry::AddTried { cart_id, line } => {
                self.cart(cart_id)
                    .tried
                    .insert(line.line_id.clone(), line.clone());
            }
            Entry::Added { cart_id, line_id } => {
                self.cart(cart_id).added.insert(line_id.clone());
            }
            Entry::CheckoutTried { cart_id } => self.cart(cart_id).checkout_tried = true,
            Entry::CheckedOut { order } => {
                self.cart(&order.cart_id)
                    .order
                    .get_or_insert_with(|| order.clone());
            }
            Entry::AbandonTried { cart_id } => self.cart(cart_id).abandon_tried = true,
            Entry::Abandoned { cart_id } => self.cart(cart_id).abandoned = true,
            Entry::Contradicted { cart_id, what } => {
                self.contradictions.push(format!("{cart_id}: {what}"));
            }
            Entry::GaveUp { flow, why } => self.gave_up.push(format!("flow {flow}: {why}")),
        }
    }

    fn cart(&mut self, cart_id: &str) -> &mut Account {
        self.carts.entry(cart_id.to_owned()).or_default()
    }
}

/// The ledger: accounts in memory, and every event as a line of JSON in a file.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    accounts: Accounts,
    file: Option<File>,
    failure: Option<io::Error>,
}

impl Ledger {
    /// A ledger in memory alone.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::with(None)
    }

    /// A ledger that also writes a file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::with(Some(File::create(path)?)))
    }

    fn with(file: Option<File>) -> Self {
        Self {
            state: Mutex::new(State {
                accounts: Accounts::default(),
                file,
                failure: None,
            }),
        }
    }

    /// Notes an event.
    pub fn note(&self, entry: &Entry) {
        let mut state = self.lock();
        state.accounts.note(entry);
        let State { file, failure, .. } = &mut *state;
        if let (Some(file), None) = (file, &failure) {
            *failure = write_line(file, entry).err();
        }
    }

    /// Everything that was noted so far.
    ///
    /// # Errors
    /// If the file could not be written: then it does not hold all that the accounts hold.
    pub fn accounts(&self) -> io::Result<Accounts> {
        let mut state = self.lock();
        match state.failure.take() {
            Some(error) => Err(error),
            None => Ok(state.accounts.clone()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics while it holds the ledger")
    }
}

fn write_line(file: &mut File, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)
}
