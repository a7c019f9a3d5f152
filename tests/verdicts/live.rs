//! Verdicts on real servers. The short ones run always; the long ones by `make verdicts`.
