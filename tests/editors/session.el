;;; session.el --- What a user of Eglot does with one file  -*- lexical-binding: t -*-

;;; Commentary:

;; emacs --batch -Q -l session.el CONFIGURATION FILE

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; Debian's elpa-eglot, for Emacs below 29
(package-initialize)
(require 'cl-lib)
(require 'eglot)

(setq eglot-sync-connect 30
      eglot-confirm-server-initiated-edits nil
      make-backup-files nil)

(defun session-findings (code)
  "The Flymake diagnostics of a rule's CODE."
  (seq-filter (lambda (found) (string-match-p code (flymake-diagnostic-text found))) (flymake-diagnostics)))

(defvar session-begin (float-time))

(defun session-tell (what)
  "Say how long it took until WHAT."
  (message "%6.1f s  %s" (- (float-time) session-begin) what)
  (setq session-begin (float-time)))

(defun session-wait-until (what holds)
  "Let Emacs work until HOLDS returns non-nil; fail with WHAT."
  (let ((deadline (+ (float-time) 30)) value)
    (while (not (setq value (funcall holds)))
      (when (> (float-time) deadline)
        (error "%s; there is %S" what (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))
      (flymake-start)
      (accept-process-output nil 0.05))
    (session-tell what)
    value))

(defun session-line-of (found)
  "The line where the server put the diagnostic FOUND; Emacs itself moves its overlay with the text."
  (let ((sent (cdr (assq 'eglot-lsp-diag (flymake-diagnostic-data found)))))
    (1+ (plist-get (plist-get (plist-get sent :range) :start) :line))))

(defun session-finding-at (code line)
  "The diagnostic of CODE that the server put on LINE."
  (seq-find (lambda (found) (= (session-line-of found) line)) (session-findings code)))

(defun session-text (number)
  "The text of the line NUMBER."
  (save-excursion
    (goto-char (point-min))
    (forward-line (1- number))
    (buffer-substring-no-properties (line-beginning-position) (line-end-position))))

(defun session-choose (title kind found)
  "Choose the code action of a KIND that begins with TITLE, at the diagnostic FOUND."
  (cl-letf ((last-nonmenu-event t) ; the keyboard, not a mouse menu
            ((symbol-function 'completing-read)
             (lambda (_prompt actions &rest _)
               (or (seq-find (lambda (action) (string-prefix-p title action)) (mapcar #'car actions))
                   (error "%s is not offered" title)))))
    (eglot-code-actions (flymake-diagnostic-beg found) (flymake-diagnostic-end found) kind t))
  (save-buffer))

(defun session ()
  "Open the file, follow its findings, mend it."
  (let ((finding (session-wait-until "findings when the file is opened"
                                     (lambda () (and (session-findings "DG502") (session-finding-at "DG304" 10))))))
    (cl-assert (eq (flymake-diagnostic-type finding) 'eglot-warning))
    (cl-assert (string-match-p "line 9: " (flymake-diagnostic-text finding)) nil "the place of the cause")

    (goto-char (flymake-diagnostic-beg finding))
    (let ((hover (jsonrpc-request (eglot-current-server) :textDocument/hover (eglot--TextDocumentPositionParams))))
      (cl-assert (string-match-p "softmax-before-cross-entropy" (plist-get (plist-get hover :contents) :value))))

    (goto-char (point-min))
    (insert "half = (\n")
    (save-buffer) ; Emacs in batch is never idle: what was typed is sent when it is saved
    (session-wait-until "findings move with a half-typed text" (lambda () (session-finding-at "DG304" 11)))
    (delete-region (point-min) (point))
    (save-buffer)
    (setq finding (session-wait-until "findings move back" (lambda () (session-finding-at "DG304" 10))))

    (session-choose "Remove `softmax` and pass the logits" "quickfix" finding)
    (cl-assert (string-suffix-p "= model(images)" (session-text 9)))
    (session-wait-until "the finding gone with it"
                        (lambda () (and (null (session-findings "DG304")) (session-findings "DG502"))))

    (session-choose "Fix all safe" "source.fixAll.drygrad" (car (session-findings "DG502")))
    (cl-assert (string-suffix-p "loss.detach()" (session-text 13)))
    (session-wait-until "no finding left" (lambda () (null (flymake-diagnostics))))))

(pcase-let ((`(,configuration ,file) command-line-args-left))
  (setq command-line-args-left nil)
  (load configuration nil t)
  (find-file file)
  (run-hooks 'post-command-hook) ; where `eglot-ensure' waits
  (session))

;;; session.el ends here
