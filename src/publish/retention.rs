//! How long views are kept that nobody uses: a moment, since clients that were cut off come back together.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::catalog::Catalog;

/// What has not been used for this long is let go at the next look, and there is one this often.
const RETENTION: Duration = Duration::from_secs(4);

impl Catalog {
    /// Lets go of views that nobody uses, until `shutdown`.
    pub async fn let_go_of_unused(self, shutdown: CancellationToken) {
        let looks = async {
            loop {
                tokio::time::sleep(RETENTION).await;
                self.let_go();
            }
        };
        shutdown.run_until_cancelled(looks).await;
    }

    /// Lets go of what nobody has used since this was called last.
    pub(super) fn let_go(&self) {
        let channels: Vec<_> = self.shared().services.read().values().cloned().collect();
        for channel in channels {
            channel.views.let_go();
        }
    }
}
