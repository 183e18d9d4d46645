//! Whose records a store's calls are about.

use helve_proto::Reason;

use crate::error::Error;

/// Whose records a store's calls are about: one end user's, or no one's. The code that makes a
/// store must say which, so that a caller whose name was lost on the way does not end up among the
/// records that all share.
///
/// ```
/// # #[cfg(feature = "memory")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), helve_client::Error> {
/// use helve_client::{HandleOptions, HandleStore, MemoryBuilder, Owner, Ttl};
///
/// let client = MemoryBuilder::new().build()?;
/// let carts = client.handles::<u32>(HandleOptions::new("cart", Owner::named("alice")));
/// let id = carts.mint(&1, Ttl::Default).await?;
/// assert_eq!(carts.for_owner("bob").get(&id).await?, None);
/// assert_eq!(carts.for_owner(Owner::shared()).get(&id).await?, None);
/// assert!(carts.for_owner("").get(&id).await.is_err());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "memory"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(Option<String>);

impl Owner {
    /// The end user of this name: at most 256 bytes. A store of an owner without a name makes no calls: they answer
    /// [`Invalid`](crate::ErrorKind::Invalid), and nothing is sent.
    pub fn named(name: impl Into<String>) -> Self {
        Self(Some(name.into()))
    }

    /// No one: all callers of the store share its records. For what a server keeps for itself, and where there is only one user.
    #[must_use]
    pub fn shared() -> Self {
        Self(None)
    }

    /// The end user's name; none if the records are shared.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// As requests have it: empty if the records are shared.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the owner has a name, and it is empty.
    pub fn on_wire(&self) -> Result<String, Error> {
        match self.name() {
            None => Ok(String::new()),
            Some("") => {
                let message = "the owner's name is empty: name the end user whose records these are, or say Owner::shared()";
                Err(Error::refused(Reason::BadRequest, message, 0, 0))
            }
            Some(name) => Ok(name.to_owned()),
        }
    }
}

impl From<&str> for Owner {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

impl From<String> for Owner {
    fn from(name: String) -> Self {
        Self::named(name)
    }
}

impl From<&String> for Owner {
    fn from(name: &String) -> Self {
        Self::named(name)
    }
}
