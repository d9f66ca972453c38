// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hooks that may never fire although commands pass.

use super::catalog::{Hook, Method, Role};

impl Hook {
    /// Why it may never fire although commands pass: it is one of several paths, or a rare event.
    pub fn seldom(&self) -> Option<&'static str> {
        match (self.target.name(), self.kind.method()) {
            _ if self.is_second() => Some("only while the first instance is interrupted"),
            ("nvme_queue_rq", _) => Some("not for batches"),
            ("nvme_queue_rqs", _) => Some("only for batches without a scheduler"),
            ("nvme_commit_rqs", _) => Some("only when a run of commands is cut short"),
            ("block_rq_requeue" | "blk_mq_requeue_request", _) => {
                Some("only when blk-mq takes a request back")
            }
            (
                "nvme_timeout"
                | "nvme_cancel_request"
                | "nvme_change_ctrl_state"
                | "nvme_async_event",
                _,
            ) => Some("a rare event"),
            ("nvme_irq", _) => Some("not for polled queues"),
            ("block_bio_queue" | "block_getrq", _) => Some("not for passthrough commands"),
            ("block_bio_backmerge" | "block_bio_frontmerge", _) => {
                Some("only for bios that are merged")
            }
            ("block_bio_complete", _) => Some("only for bios that end without a request"),
            ("blk_throtl_bio", _) if self.role == Role::Submitter => {
                Some("only with limits of blk-throttle (io.max)")
            }
            ("blk_throtl_bio" | "blk_account_io_start", _) => Some("not for passthrough commands"),
            ("__blk_throtl_bio", _) => Some("only with limits of blk-throttle (io.max)"),
            ("__bio_queue_enter" | "blk_queue_enter", _) => Some("only while a queue is frozen"),
            ("blk_zone_plug_bio", _) => Some("only for writes to disks with zones"),
            ("ioc_rqos_throttle", _) => Some("only with io.cost"),
            ("rq_qos_wait", _) => Some("only for writes that wbt limits"),
            ("__blk_mq_get_tag" | "block_rq_tag_wait", _) => Some("only if no tag is free"),
            ("block_split", _) => Some("only for bios above a limit of the queue"),
            ("swiotlb_bounced", _) => Some("only with bounce buffers (swiotlb)"),
            ("map" | "unmap", _) => Some("only where an IOMMU translates"),
            // the tracepoint is in both functions, each kprobe in one
            ("nvme_complete_rq", Method::Kprobe) => Some("not for batches that went well"),
            ("nvme_complete_batch_req", _) => Some("only for batches that went well"),
            _ => None,
        }
    }
}
