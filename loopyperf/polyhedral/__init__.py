"""Integer sets and functions: isl's sets, boxes, projections, affine forms, polynomials and quasi-polynomials."""
