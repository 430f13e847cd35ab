;;; dry_run.el --- What a user of Eglot does to run a function  -*- lexical-binding: t -*-

;;; Commentary:

;; The last argument is how a run is asked for: command or action.

;;; Code:

(pcase-let ((`(,how) (session-open)))
  (session-go-to "cross_entropy")
  (pcase how
    ("command" (drygrad-dry-run))
    ("action" (session-choose "Dry-run loss")))
  (session-wait-until (format "the fault that a run, asked for by %s, has seen" how)
                      (lambda () (session-findings "5 is outside [0, 5)"))))

;;; dry_run.el ends here
