;;; dry_run.el --- What a user of Eglot does to run a function  -*- lexical-binding: t -*-

;;; Commentary:

;; emacs --batch -Q -l dry_run.el CONFIGURATION FILE HOW, where HOW is how a run is asked for: command or action.

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; Debian's elpa-eglot, for Emacs below 29
(package-initialize)
(require 'cl-lib)
(require 'eglot)

(setq eglot-sync-connect 30
      make-backup-files nil)

(defvar session-begin (float-time))

(defun session-wait-until (what holds)
  "Let Emacs work until HOLDS returns non-nil; fail with WHAT."
  (let ((deadline (+ (float-time) 60)))
    (while (not (funcall holds))
      (when (> (float-time) deadline)
        (error "%s; there is %S" what (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))
      (flymake-start)
      (accept-process-output nil 0.1))
    (message "%6.1f s  %s" (- (float-time) session-begin) what)
    (setq session-begin (float-time))))

(defun session-shows (words)
  "Whether a Flymake diagnostic says WORDS."
  (seq-some (lambda (found) (string-match-p (regexp-quote words) (flymake-diagnostic-text found))) (flymake-diagnostics)))

(defun session-ask-by-command ()
  "Run the function at point by the configuration's own command."
  (drygrad-dry-run))

(defun session-ask-by-action ()
  "Run the function at point by its code action."
  (cl-letf ((last-nonmenu-event t) ; the keyboard, not a mouse menu
            ((symbol-function 'completing-read)
             (lambda (_prompt actions &rest _) (car (assoc "Dry-run loss" actions)))))
    (eglot-code-actions (point) (point) nil t)))

(pcase-let ((`(,configuration ,file ,how) command-line-args-left))
  (setq command-line-args-left nil)
  (load configuration nil t)
  (find-file file)
  (run-hooks 'post-command-hook) ; where `eglot-ensure' waits
  (goto-char (point-min))
  (search-forward "cross_entropy")
  (funcall (intern (concat "session-ask-by-" how)))
  (session-wait-until (format "the fault that a run, asked for by %s, has seen" how)
                      (lambda () (session-shows "5 is outside [0, 5)"))))

;;; dry_run.el ends here
