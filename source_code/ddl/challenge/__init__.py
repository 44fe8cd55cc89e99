"""The challenge: reach a held-out accuracy with less, in a training whose score a submission cannot forge."""
