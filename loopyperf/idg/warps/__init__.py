"""What the warps of a launch execute: their lanes, the passes that they make through loops, the kinds of them."""
