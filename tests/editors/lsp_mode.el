;;; lsp_mode.el --- What a user of lsp-mode does with one file  -*- lexical-binding: t -*-

;;; Commentary:

;; emacs --batch -Q -l lsp_mode.el CONFIGURATION FILE STEPS, where STEPS is the function to play: mend or run.

;;; Code:

(require 'package)
(add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa") ; Debian's elpa-lsp-mode
(package-initialize)
(require 'cl-lib)
(require 'lsp-mode)
(require 'lsp-lens)

(setq lsp-auto-guess-root t
      lsp-enable-snippet nil
      make-backup-files nil)

(defvar session-begin (float-time))

(defun session-wait-until (what holds)
  "Let Emacs work until HOLDS returns non-nil; fail with WHAT."
  (let ((deadline (+ (float-time) 60)) value)
    (while (not (setq value (funcall holds)))
      (when (> (float-time) deadline)
        (error "%s; there are %S, and the lenses %S" what
               (mapcar #'flymake-diagnostic-text (flymake-diagnostics))
               (and (lsp-feature? "textDocument/codeLens") (session-lenses))))
      (accept-process-output nil 0.05))
    (message "%6.1f s  %s" (- (float-time) session-begin) what)
    (setq session-begin (float-time))
    value))

(defun session-shows (words)
  "The Flymake diagnostic that says WORDS."
  (seq-find (lambda (found) (string-match-p (regexp-quote words) (flymake-diagnostic-text found)))
            (flymake-diagnostics)))

(defun session-lenses ()
  "The commands of the lenses in the buffer; Emacs in batch is never idle, so they are asked for."
  (let ((found (lsp-request "textDocument/codeLens" `(:textDocument ,(lsp--text-document-identifier)))))
    (mapcar (lambda (lens) (gethash "command" lens)) found)))

(defun session-lens (beginning)
  "The command of the lens whose title starts with BEGINNING."
  (seq-find (lambda (command) (string-prefix-p beginning (gethash "title" command))) (session-lenses)))

(defun session-mend ()
  "Follow the findings, fix them one by one, then all that are safe to fix."
  (let ((finding (session-wait-until "a finding when the file is opened"
                                     (lambda () (session-shows "cross_entropy applies log_softmax itself")))))
    (cl-assert (eq (flymake-diagnostic-type finding) :warning))
    (goto-char (flymake-diagnostic-beg finding))
    (lsp-execute-code-action
     (seq-find (lambda (action) (string-prefix-p "Remove `softmax` and pass the logits" (gethash "title" action)))
               (lsp-code-actions-at-point "quickfix")))
    (session-wait-until "the finding gone with its fix"
                        (lambda () (not (session-shows "cross_entropy applies log_softmax itself"))))
    (lsp-execute-code-action-by-kind "source.fixAll.drygrad")
    (save-buffer)
    (session-wait-until "no finding left" (lambda () (null (flymake-diagnostics))))))

(defun session-run ()
  "Press the lens above a function, then run it as one without lenses does."
  (session-wait-until "a server that has lenses" (lambda () (lsp-feature? "textDocument/codeLens")))
  (session-wait-until "an offer to run" (lambda () (session-lens "▶ Dry-run")))
  (lsp--execute-command (session-lens "▶ Dry-run"))
  (session-wait-until "the fault" (lambda () (session-shows "5 is outside [0, 5)")))
  (session-wait-until "the result above the function" (lambda () (session-lens "● pinned")))
  (goto-char (point-min))
  (search-forward "5, 2]")
  (replace-match "4, 2]")
  (search-forward "cross_entropy")
  (drygrad-dry-run)
  (session-wait-until "that it passes when its input is mended" (lambda () (session-lens "✓ passed")))
  (save-buffer))

(pcase-let ((`(,configuration ,file ,steps) command-line-args-left))
  (setq command-line-args-left nil)
  (load configuration nil t)
  (find-file file)
  (funcall (intern (concat "session-" steps))))

;;; lsp_mode.el ends here
