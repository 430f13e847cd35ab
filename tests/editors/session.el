;;; session.el --- What a user of Eglot does with one file  -*- lexical-binding: t -*-

;;; Code:

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

(defun session-mend (title kind found)
  "Choose the code action of a KIND that begins with TITLE, at the diagnostic FOUND, and save."
  (session-choose title kind (flymake-diagnostic-beg found) (flymake-diagnostic-end found))
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

    (session-mend "Remove `softmax` and pass the logits" "quickfix" finding)
    (cl-assert (string-suffix-p "= model(images)" (session-text 9)))
    (session-wait-until "the finding gone with it"
                        (lambda () (and (null (session-findings "DG304")) (session-findings "DG502"))))

    (session-mend "Fix all safe" "source.fixAll.drygrad" (car (session-findings "DG502")))
    (cl-assert (string-suffix-p "loss.detach()" (session-text 13)))
    (session-wait-until "no finding left" (lambda () (null (flymake-diagnostics))))))

(session-open)
(session)

;;; session.el ends here
