;;; eglot.el --- What the sessions of Eglot share  -*- lexical-binding: t -*-

;;; Commentary:

;; emacs --batch -Q -l eglot.el -l SESSION CONFIGURATION FILE ...

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; Debian's elpa-eglot, for Emacs below 29
(package-initialize)
(require 'cl-lib)
(require 'eglot)

(setq eglot-sync-connect 30
      eglot-confirm-server-initiated-edits nil
      make-backup-files nil)

(defvar session-begin (float-time))

(defun session-open ()
  "Open the FILE of the command line as the CONFIGURATION there wants it; return the arguments that follow."
  (pcase-let ((`(,configuration ,file . ,rest) command-line-args-left))
    (setq command-line-args-left nil)
    (load configuration nil t)
    (find-file file)
    (run-hooks 'post-command-hook) ; where `eglot-ensure' waits
    rest))

(defun session-wait-until (what holds)
  "Let Emacs work until HOLDS returns non-nil, and return that; fail with WHAT."
  (let ((deadline (+ (float-time) 100)) value)
    (while (not (setq value (funcall holds)))
      (when (> (float-time) deadline)
        (error "%s; there is %S" what (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))
      (flymake-start)
      (accept-process-output nil 0.05))
    (message "%6.1f s  %s" (- (float-time) session-begin) what)
    (setq session-begin (float-time))
    value))

(defun session-findings (words)
  "The Flymake diagnostics that say WORDS."
  (seq-filter (lambda (found) (string-match-p (regexp-quote words) (flymake-diagnostic-text found)))
              (flymake-diagnostics)))

(defun session-go-to (words)
  "Move point behind the first WORDS of the buffer."
  (goto-char (point-min))
  (search-forward words))

(defun session-choose (title &optional kind beginning end)
  "Choose the code action of a KIND that begins with TITLE, from BEGINNING to END or at point."
  (cl-letf ((last-nonmenu-event t) ; the keyboard, not a mouse menu
            ((symbol-function 'completing-read)
             (lambda (_prompt actions &rest _)
               (or (seq-find (lambda (action) (string-prefix-p title action)) (mapcar #'car actions))
                   (error "%s is not offered" title)))))
    (eglot-code-actions (or beginning (point)) (or end (point)) kind t)))

;;; eglot.el ends here
